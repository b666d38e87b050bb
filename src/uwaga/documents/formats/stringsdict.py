"""Apple's .stringsdict: the forms of its plurals, which its property list names by category."""

from __future__ import annotations

from uwaga.documents.document import DocumentSource, Reading
from uwaga.documents.property_list import read_property_list
from uwaga.documents.registry import DocumentFormat

FORMS = frozenset(("zero", "one", "two", "few", "many", "other", "NSStringLocalizedFormatKey"))


def read(source: DocumentSource) -> Reading:
    """Take a property list apart into the forms of its plurals.

    Raises:
        DataError: no well-formed XML, or no property list.
    """
    return read_property_list(source, FORMS.__contains__)


FORMAT = DocumentFormat("stringsdict", (".stringsdict",), read)
