"""Small office documents, built from given contents."""

import io
import zipfile

TYPES = '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>'
W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'


def write_zip(members, stored=()):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            info = zipfile.ZipInfo(name, (2020, 1, 2, 3, 4, 6))
            info.compress_type = zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
            file.writestr(info, content)
    return stream.getvalue()


def read_zip(content):
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return {info.filename: file.read(info) for info in file.infolist()}


def docx(body, **parts):
    document = f'<?xml version="1.0"?><w:document {W}><w:body>{body}</w:body></w:document>'
    return write_zip(
        {"[Content_Types].xml": TYPES, "word/document.xml": document, "word/media/a.png": b"\x89PNG", **parts}
    )


def pptx(body):
    slide = f'<p:sld {A} xmlns:p="p">{body}</p:sld>'
    return write_zip(
        {"[Content_Types].xml": TYPES, "ppt/presentation.xml": "<p/>", "ppt/slides/slide1.xml": slide}
    )


def xlsx(strings, tables=""):
    return write_zip(
        {
            "[Content_Types].xml": TYPES,
            "xl/workbook.xml": "<workbook/>",
            "xl/tables/table1.xml": f"<table>{tables}</table>",
            "xl/sharedStrings.xml": f'<sst xmlns="x">{strings}</sst>',
        }
    )


def odt(body):
    content = (
        '<?xml version="1.0"?><office:document-content xmlns:office="o" xmlns:text="t" xmlns:draw="d" '
        'xmlns:fo="f">'
        f"<office:body><office:text>{body}</office:text></office:body></office:document-content>"
    )
    return write_zip(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "content.xml": content,
            "META-INF/manifest.xml": "<manifest/>",
        },
        stored=("mimetype",),
    )


def epub(body):
    return write_zip(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": "<container/>",
            "book.opf": '<package xmlns:dc="x"><dc:title>The book</dc:title></package>',
            "toc.ncx": "<ncx><text>Chapter one</text></ncx>",
            "one.xhtml": f'<html xmlns="http://www.w3.org/1999/xhtml"><body>{body}</body></html>',
            "a.css": "p { color: red }",
        },
        stored=("mimetype",),
    )
