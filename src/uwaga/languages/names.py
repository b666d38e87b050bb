"""Names of languages and their ISO 639 codes."""

from __future__ import annotations

from collections.abc import Iterable

from uwaga.languages.codes import SCRIPT_LETTERS, SEPARATOR, base_language, same_language

# ruff: noqa: SIM905 (a list of names is easier to read as one text)

NAMES = dict(
    entry.split(":")
    for entry in (
        "aa:Afar ab:Abkhazian ae:Avestan af:Afrikaans ak:Akan am:Amharic an:Aragonese ar:Arabic as:Assamese "
        "av:Avaric ay:Aymara az:Azerbaijani ba:Bashkir be:Belarusian bg:Bulgarian bi:Bislama bm:Bambara "
        "bn:Bengali bo:Tibetan br:Breton bs:Bosnian ca:Catalan ce:Chechen ch:Chamorro co:Corsican cr:Cree "
        "cs:Czech cu:Church_Slavonic cv:Chuvash cy:Welsh da:Danish de:German dv:Divehi dz:Dzongkha ee:Ewe "
        "el:Greek en:English eo:Esperanto es:Spanish et:Estonian eu:Basque fa:Persian ff:Fulah fi:Finnish "
        "fj:Fijian fo:Faroese fr:French fy:Western_Frisian ga:Irish gd:Scottish_Gaelic gl:Galician "
        "gn:Guarani gu:Gujarati gv:Manx ha:Hausa he:Hebrew hi:Hindi hr:Croatian ht:Haitian hu:Hungarian "
        "hy:Armenian ia:Interlingua id:Indonesian ig:Igbo ik:Inupiaq io:Ido is:Icelandic it:Italian "
        "iu:Inuktitut ja:Japanese jv:Javanese ka:Georgian kg:Kongo ki:Kikuyu kk:Kazakh kl:Kalaallisut "
        "km:Khmer kn:Kannada ko:Korean kr:Kanuri ks:Kashmiri ku:Kurdish kv:Komi kw:Cornish ky:Kyrgyz "
        "la:Latin lb:Luxembourgish lg:Ganda li:Limburgish ln:Lingala lo:Lao lt:Lithuanian lu:Luba-Katanga "
        "lv:Latvian mg:Malagasy mh:Marshallese mi:Maori mk:Macedonian ml:Malayalam mn:Mongolian mr:Marathi "
        "ms:Malay mt:Maltese my:Burmese na:Nauru nb:Norwegian_Bokmål nd:North_Ndebele ne:Nepali nl:Dutch "
        "nn:Norwegian_Nynorsk no:Norwegian nr:South_Ndebele nv:Navajo ny:Chichewa oc:Occitan oj:Ojibwa "
        "om:Oromo or:Odia os:Ossetic pa:Punjabi pi:Pali pl:Polish ps:Pashto pt:Portuguese qu:Quechua "
        "rm:Romansh rn:Rundi ro:Romanian ru:Russian rw:Kinyarwanda sa:Sanskrit sc:Sardinian sd:Sindhi "
        "se:Northern_Sami sg:Sango si:Sinhala sk:Slovak sl:Slovenian sm:Samoan sn:Shona so:Somali "
        "sq:Albanian sr:Serbian ss:Swati st:Southern_Sotho su:Sundanese sv:Swedish sw:Swahili ta:Tamil "
        "te:Telugu tg:Tajik th:Thai ti:Tigrinya tk:Turkmen tl:Tagalog tn:Tswana to:Tongan tr:Turkish "
        "ts:Tsonga tt:Tatar tw:Twi ty:Tahitian ug:Uyghur uk:Ukrainian ur:Urdu uz:Uzbek ve:Venda "
        "vi:Vietnamese vo:Volapük wa:Walloon wo:Wolof xh:Xhosa yi:Yiddish yo:Yoruba za:Zhuang zh:Chinese "
        "zu:Zulu ast:Asturian ceb:Cebuano ilo:Iloko kab:Kabyle kea:Kabuverdianu lmo:Lombard ltg:Latgalian "
        "mni:Manipuri nso:Northern_Sotho pap:Papiamento scn:Sicilian szl:Silesian vec:Venetian war:Waray "
        "yue:Cantonese"
    ).split()
)
SCRIPT_NAMES = {
    "hans": "simplified", "hant": "traditional", "latn": "Latin", "cyrl": "Cyrillic", "arab": "Arabic",
    "deva": "Devanagari", "beng": "Bengali", "tfng": "Tifinagh",
}  # fmt: skip

NATIVE_NAMES = {
    name.replace("_", " "): code
    for code, _, names in (
        entry.partition(":")
        for entry in (
            "ar:العربية be:Беларуская bg:Български bn:বাংলা bs:Bosanski ca:Català cs:Čeština "
            "cy:Cymraeg da:Dansk de:Deutsch el:Ελληνικά "
            "en:American_English/British_English/US_English/UK_English "
            "es:Español/Castilian/Latin_American_Spanish/European_Spanish et:Eesti eu:Euskara "
            "fa:فارسی/Farsi fi:Suomi fr:Français/Canadian_French fy:Frisian ga:Gaeilge gl:Galego "
            "he:עברית hi:हिन्दी hr:Hrvatski ht:Haitian_Creole hu:Magyar hy:Հայերեն "
            "id:Bahasa_Indonesia is:Íslenska it:Italiano ja:日本語 ka:ქართული kk:Қазақ km:ខ្មែរ "
            "ko:한국어 lt:Lietuvių lv:Latviešu mk:Македонски ms:Bahasa_Melayu/Melayu mt:Malti "
            "my:Myanmar nb:Norsk_Bokmål/Bokmål nn:Nynorsk/Norsk_Nynorsk no:Norsk "
            "nl:Nederlands/Flemish pl:Polski pt:Português/European_Portuguese "
            "pt-BR:Brazilian_Portuguese/Portuguese_(Brazil)/Português_do_Brasil ro:Română "
            "ru:Русский sk:Slovenčina sl:Slovenščina sq:Shqip sr:Српски/Srpski sv:Svenska "
            "ta:தமிழ் te:తెలుగు th:ไทย tl:Filipino tr:Türkçe ug:Uighur uk:Українська ur:اردو "
            "vi:Tiếng_Việt yue:粤语/粵語 zh:中文/汉语/漢語/Mandarin/Mandarin_Chinese "
            "zh-Hans:Simplified_Chinese/Chinese_Simplified/Chinese_(Simplified)/简体中文 "
            "zh-Hant:Traditional_Chinese/Chinese_Traditional/Chinese_(Traditional)/繁體中文/繁体中文"
        ).split()
    )
    for name in names.split("/")
}
"""Language codes by native names and further English names."""
CHINESE_NAMES = dict(
    entry.split(":")
    for entry in (
        "ar:阿拉伯语 bn:孟加拉语 bo:藏语 cs:捷克语 de:德语 en:英语 es:西班牙语 fa:波斯语 fr:法语 "
        "gu:古吉拉特语 he:希伯来语 hi:印地语 id:印尼语 it:意大利语 ja:日语 kk:哈萨克语 km:高棉语 ko:韩语 "
        "mn:蒙古语 mr:马拉地语 ms:马来语 my:缅甸语 nl:荷兰语 pl:波兰语 pt:葡萄牙语 ru:俄语 ta:泰米尔语 "
        "te:泰卢固语 th:泰语 tl:菲律宾语 tr:土耳其语 ug:维吾尔语 uk:乌克兰语 ur:乌尔都语 vi:越南语 "
        "yue:粤语 zh:中文 zh-hant:繁体中文"
    ).split()
)
"""Chinese names of the languages of Hunyuan-MT, from its README."""
CODES_BY_NAME = {
    **{name.replace("_", " ").casefold(): code for code, name in NAMES.items()},
    **{name.casefold(): code for name, code in NATIVE_NAMES.items()},
}


def language_code(name: str) -> str | None:
    """Return the code of the language that has this English or native name, or None if it is unknown."""
    return CODES_BY_NAME.get(name.casefold())


def language_name(code: str) -> str:
    """Return the English name of a language, with the script if the code has one.

    The code is returned for an unknown language.
    """
    name = NAMES.get(base_language(code), "").replace("_", " ")
    script = next((part for part in SEPARATOR.split(code.lower())[1:] if len(part) == SCRIPT_LETTERS), None)
    if not name:
        return code
    return f"{name} ({SCRIPT_NAMES.get(script, script.title())})" if script else name


def chinese_language_name(code: str) -> str:
    """Return the Chinese name of a language, or its English name if the Chinese name is unknown."""
    base, is_traditional = base_language(code), "hant" in SEPARATOR.split(code.lower())
    return CHINESE_NAMES.get("zh-hant" if base == "zh" and is_traditional else base) or language_name(code)


def public_codes(codes: Iterable[str]) -> dict[str, str]:
    """Return the code under which a server publishes each language code of its models.

    This is the two-letter code of ISO 639 if there is one, with the script only if several scripts must be
    distinguished: ``eng_Latn`` becomes ``en``, and ``zho_Hans`` becomes ``zh-Hans`` if there is also
    ``zho_Hant``.
    """
    variants: dict[str, list[str]] = {}
    distinct_codes = list(dict.fromkeys(codes))
    for code in distinct_codes:
        variant_codes = variants.setdefault(base_language(code), [])
        if not any(same_language(code, other) for other in variant_codes):
            variant_codes.append(code)
    return {code: _public_code(code, len(variants[base_language(code)]) > 1) for code in distinct_codes}


def _public_code(code: str, with_script: bool) -> str:
    base = base_language(code)
    script = next((part for part in SEPARATOR.split(code)[1:] if len(part) == SCRIPT_LETTERS), None)
    return f"{base}-{script.title()}" if with_script and script else base
