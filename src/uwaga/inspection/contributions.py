"""Attribution beside attention: what each source token contributes to each target token."""

from __future__ import annotations

from typing import get_args

from uwaga.inspection.alignment import Alignment, align, ended, label
from uwaga.inspection.attribution import Method, attribute
from uwaga.settings.options import check_one_of
from uwaga.translator import Translator

METHODS: tuple[str, ...] = get_args(Method)


def contributions(
    translator: Translator,
    source: str,
    target: str | None = None,
    method: Method = "integrated",
    *,
    words: bool = False,
    title: str = "",
) -> list[Alignment]:
    """Two matrices of one translation: where the model looks, and what each source token contributes.

    The second is :func:`uwaga.inspection.attribution.attribute`'s, in nats: below 0 where a source token
    speaks against a target token. With ``words`` the contributions of a source word's pieces are added up,
    and those to a target word's pieces averaged, as :func:`uwaga.inspection.align` does with attention.

    Args:
        translator: of a Transformer in torch.
        source: the text to translate.
        target: a translation to explain; the model's own if None.
        method: ``gradient_input`` or ``integrated``.
        words: join the pieces of each word.
        title: what the titles begin with.

    Raises:
        SettingsError: an unknown method, or the model is no Transformer in torch.
        TextTooLongError, DataError: as :func:`uwaga.inspection.attribution.attribute`.
    """
    check_one_of("attribution", method, METHODS)
    found = attribute(translator, source, target, method)
    rows, columns = found.values.shape
    sides = ended(found.translation.tokens, rows), ended(found.translation.source_tokens, columns)
    before = f"{title}: " if title else ""
    called = {"gradient_input": "gradient × input", "integrated": "integrated gradients"}[method]
    return [
        align(found.translation, words=words, title=f"{before}attention"),
        label(found.values, *sides, words=words, title=f"{before}{called}, nats", kind="attribution"),
    ]
