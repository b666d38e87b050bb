"""Messages of ``uwaga learn`` in the languages of the course, and the choice of the language."""

from __future__ import annotations

import locale
import os
from collections.abc import Mapping

from uwaga.errors import SettingsError

LANGUAGES = ("en", "es", "pl", "zh")
MESSAGES: dict[str, dict[str, str]] = {
    "en": {
        "right": "Right.",
        "rounded": "That is near, but rounded too far: give at least three digits.",
        "line": "Line {line}: {error}",
        "in tests": "The tests end with {error}",
        "ended": "The program ends by itself, with status {status}.",
        "long": "The program ran for more than {seconds} seconds and was stopped.",
        "printed": "Your program prints:",
        "number": "give a number",
        "numbers": "give the numbers of the table, row by row, separated by spaces: {count}, not {given}",
        "not a number": "{text!r} is not a number: write -2.5, 2/7, 50% or 1048576",
        "two numbers": "{text!r} has two meanings: write {first} or {second}",
        "option": "give the number of an option, 1 to {limit}",
        "order": "give the number of each item once, 1 to {limit}, separated by spaces",
        "file": "give the name of one Python file",
        "unreadable": "{file}: cannot be read: {error}",
        "rows": "rows: {names}",
        "columns": "columns: {names}",
        "chapter": "chapter {number}",
        "solved": "{solved} of {count}",
        "no exercise": "there is no exercise {number!r}; {close}`uwaga learn list` shows all",
        "close": "did you mean {number}? ",
        "number of": "number",
        "table of": "table",
        "choice of": "choice",
        "order of": "order",
        "code of": "program",
    },
    "es": {
        "right": "Correcto.",
        "rounded": "Está cerca, pero demasiado redondeado: da al menos tres cifras.",
        "line": "Línea {line}: {error}",
        "in tests": "Las pruebas terminan con {error}",
        "ended": "El programa termina por sí mismo, con el estado {status}.",
        "long": "El programa ha tardado más de {seconds} segundos y se ha detenido.",
        "printed": "Tu programa escribe:",
        "number": "da un número",
        "numbers": "da los números de la tabla, fila por fila, separados por espacios: {count}, no {given}",
        "not a number": "{text!r} no es un número: escribe -2.5, 2/7, 50% o 1048576",
        "two numbers": "{text!r} tiene dos lecturas: escribe {first} o {second}",
        "option": "da el número de una opción, de 1 a {limit}",
        "order": "da una vez el número de cada elemento, de 1 a {limit}, separados por espacios",
        "file": "da el nombre de un archivo de Python",
        "unreadable": "{file}: no se puede leer: {error}",
        "rows": "filas: {names}",
        "columns": "columnas: {names}",
        "chapter": "capítulo {number}",
        "solved": "{solved} de {count}",
        "no exercise": "no hay ningún ejercicio {number!r}; {close}`uwaga learn list` los muestra todos",
        "close": "¿querías decir {number}? ",
        "number of": "número",
        "table of": "tabla",
        "choice of": "elección",
        "order of": "orden",
        "code of": "programa",
    },
    "pl": {
        "right": "Dobrze.",
        "rounded": "Blisko, ale za mocno zaokrąglone: podaj co najmniej trzy cyfry.",
        "line": "Wiersz {line}: {error}",
        "in tests": "Testy kończą się wyjątkiem {error}",
        "ended": "Program sam kończy działanie, ze statusem {status}.",
        "long": "Program działał dłużej niż {seconds} sekund i został zatrzymany.",
        "printed": "Twój program wypisuje:",
        "number": "podaj liczbę",
        "numbers": "podaj liczby z tabeli, wiersz po wierszu, oddzielone spacjami: {count}, a nie {given}",
        "not a number": "{text!r} nie jest liczbą: napisz -2.5, 2/7, 50% albo 1048576",
        "two numbers": "{text!r} można odczytać na dwa sposoby: napisz {first} albo {second}",
        "option": "podaj numer odpowiedzi, od 1 do {limit}",
        "order": "podaj raz numer każdej pozycji, od 1 do {limit}, oddzielając je spacjami",
        "file": "podaj nazwę jednego pliku Pythona",
        "unreadable": "{file}: nie można odczytać: {error}",
        "rows": "wiersze: {names}",
        "columns": "kolumny: {names}",
        "chapter": "rozdział {number}",
        "solved": "{solved} z {count}",
        "no exercise": "nie ma ćwiczenia {number!r}; {close}`uwaga learn list` pokazuje wszystkie",
        "close": "czy chodziło o {number}? ",
        "number of": "liczba",
        "table of": "tabela",
        "choice of": "wybór",
        "order of": "kolejność",
        "code of": "program",
    },
    "zh": {
        "right": "正确。",
        "rounded": "很接近，但舍入得太多：请至少给出三位有效数字。",
        "line": "第 {line} 行：{error}",
        "in tests": "测试因 {error} 而中止",
        "ended": "程序自己结束了，状态为 {status}。",
        "long": "运行超过了 {seconds} 秒，已被停止。",
        "printed": "程序的输出：",
        "number": "请给出一个数",
        "numbers": "请逐行给出表格里的数，用空格隔开：应有 {count} 个，给了 {given} 个",
        "not a number": "{text!r} 不是数：请写成 -2.5、2/7、50% 或 1048576",
        "two numbers": "{text!r} 有两种读法：请写 {first} 或 {second}",
        "option": "请给出一个选项的编号，1 到 {limit}",
        "order": "请把每一项的编号各给出一次，1 到 {limit}，用空格隔开",
        "file": "请给出一个 Python 文件的文件名",
        "unreadable": "{file}：无法读取：{error}",
        "rows": "行：{names}",
        "columns": "列：{names}",
        "chapter": "第 {number} 章",
        "solved": "{solved}/{count}",
        "no exercise": "没有习题 {number!r}；{close}`uwaga learn list` 列出全部习题",
        "close": "是不是 {number}？",
        "number of": "数值",
        "table of": "表格",
        "choice of": "选择",
        "order of": "排序",
        "code of": "程序",
    },
}


def message_text(key: str, language: str, **values: object) -> str:
    """Return the message with the given key and language, with ``values`` inserted."""
    return MESSAGES[language][key].format(**values)


def choose_language(code: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """Return a language of the course: the one with the given code or, without a code, that of the locale.

    English is returned if the course does not have the language of the locale.

    Raises:
        SettingsError: the course does not have the language of the code.
    """
    if code is not None:
        if code in LANGUAGES:
            return code
        raise SettingsError(f"there is no course in {code!r}; choose {', '.join(LANGUAGES)}")
    names = [environment.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG")]
    name = next((name for name in names if name), None) or locale.getlocale()[0] or ""
    language = name[:2].lower()
    return language if language in LANGUAGES else "en"
