"""Language codes: comparison of codes, and the codes of multilingual model families in token order.

The families are mBART (Liu et al. 2020), mBART-50 (Tang et al. 2020), M2M-100 (Fan et al. 2020), WMT21 (Tran
et al. 2021) and NLLB-200 (Costa-jussà et al. 2022). A model folder that lists its tokens needs none of these
codes.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

# ruff: noqa: SIM905 (a list of codes is easier to read as one text)

MBART = (
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV "
    "my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN"
).split()
MBART50 = (
    MBART
    + (
        "af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX "
        "sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI"
    ).split()
)
M2M100 = (
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi "
    "hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns "
    "oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh "
    "zu"
).split()
WMT21 = "en ha is ja cs ru zh de".split()
NLLB200 = (
    "ace_Arab ace_Latn acm_Arab acq_Arab aeb_Arab afr_Latn ajp_Arab aka_Latn amh_Ethi apc_Arab arb_Arab "
    "ars_Arab ary_Arab arz_Arab asm_Beng ast_Latn awa_Deva ayr_Latn azb_Arab azj_Latn bak_Cyrl bam_Latn "
    "ban_Latn bel_Cyrl bem_Latn ben_Beng bho_Deva bjn_Arab bjn_Latn bod_Tibt bos_Latn bug_Latn bul_Cyrl "
    "cat_Latn ceb_Latn ces_Latn cjk_Latn ckb_Arab crh_Latn cym_Latn dan_Latn deu_Latn dik_Latn dyu_Latn "
    "dzo_Tibt ell_Grek eng_Latn epo_Latn est_Latn eus_Latn ewe_Latn fao_Latn pes_Arab fij_Latn fin_Latn "
    "fon_Latn fra_Latn fur_Latn fuv_Latn gla_Latn gle_Latn glg_Latn grn_Latn guj_Gujr hat_Latn hau_Latn "
    "heb_Hebr hin_Deva hne_Deva hrv_Latn hun_Latn hye_Armn ibo_Latn ilo_Latn ind_Latn isl_Latn ita_Latn "
    "jav_Latn jpn_Jpan kab_Latn kac_Latn kam_Latn kan_Knda kas_Arab kas_Deva kat_Geor knc_Arab knc_Latn "
    "kaz_Cyrl kbp_Latn kea_Latn khm_Khmr kik_Latn kin_Latn kir_Cyrl kmb_Latn kon_Latn kor_Hang kmr_Latn "
    "lao_Laoo lvs_Latn lij_Latn lim_Latn lin_Latn lit_Latn lmo_Latn ltg_Latn ltz_Latn lua_Latn lug_Latn "
    "luo_Latn lus_Latn mag_Deva mai_Deva mal_Mlym mar_Deva min_Latn mkd_Cyrl plt_Latn mlt_Latn mni_Beng "
    "khk_Cyrl mos_Latn mri_Latn zsm_Latn mya_Mymr nld_Latn nno_Latn nob_Latn npi_Deva nso_Latn nus_Latn "
    "nya_Latn oci_Latn gaz_Latn ory_Orya pag_Latn pan_Guru pap_Latn pol_Latn por_Latn prs_Arab pbt_Arab "
    "quy_Latn ron_Latn run_Latn rus_Cyrl sag_Latn san_Deva sat_Beng scn_Latn shn_Mymr sin_Sinh slk_Latn "
    "slv_Latn smo_Latn sna_Latn snd_Arab som_Latn sot_Latn spa_Latn als_Latn srd_Latn srp_Cyrl ssw_Latn "
    "sun_Latn swe_Latn swh_Latn szl_Latn tam_Taml tat_Cyrl tel_Telu tgk_Cyrl tgl_Latn tha_Thai tir_Ethi "
    "taq_Latn taq_Tfng tpi_Latn tsn_Latn tso_Latn tuk_Latn tum_Latn tur_Latn twi_Latn tzm_Tfng uig_Arab "
    "ukr_Cyrl umb_Latn urd_Arab uzn_Latn vec_Latn vie_Latn war_Latn wol_Latn xho_Latn ydd_Hebr yor_Latn "
    "yue_Hant zho_Hans zho_Hant zul_Latn"
).split()

TWO_LETTER_CODES = {
    longer_code: short_code
    for short_code, _, other_codes in (
        entry.partition(":")
        for entry in (
            "aa:aar ab:abk ae:ave af:afr ak:aka am:amh an:arg ar:ara/arb as:asm av:ava ay:aym/ayr az:aze/azj "
            "ba:bak be:bel bg:bul bi:bis bm:bam bn:ben bo:bod/tib br:bre bs:bos ca:cat ce:che ch:cha co:cos "
            "cr:cre cs:ces/cze cu:chu cv:chv cy:cym/wel da:dan de:deu/ger dv:div dz:dzo ee:ewe el:ell/gre "
            "en:eng eo:epo es:spa et:ekk/est eu:baq/eus fa:fas/per/pes ff:ful/fuv fi:fin fj:fij fo:fao "
            "fr:fra/fre fy:fry ga:gle gd:gla gl:glg gn:grn gu:guj gv:glv ha:hau he:heb/iw hi:hin hr:hrv "
            "ht:hat hu:hun hy:arm/hye hz:her ia:ina id:ind/in ie:ile ig:ibo ii:iii ik:ipk io:ido is:ice/isl "
            "it:ita iu:iku ja:jpn jv:jav/jw ka:geo/kat kg:kon ki:kik kj:kua kk:kaz kl:kal km:khm kn:kan "
            "ko:kor kr:kau/knc ks:kas ku:kmr/kur kv:kom kw:cor ky:kir la:lat lb:ltz lg:lug li:lim ln:lin "
            "lo:lao lt:lit lu:lub lv:lav/lvs mg:mlg/plt mh:mah mi:mao/mri mk:mac/mkd ml:mal mn:khk/mon "
            "mr:mar ms:may/msa/zsm mt:mlt my:bur/mya na:nau nb:nob nd:nde ne:nep/npi ng:ndo nl:dut/nld "
            "nn:nno no:nor nr:nbl nv:nav ny:nya oc:oci oj:oji om:gaz/orm or:ori/ory os:oss pa:pan pi:pli "
            "pl:pol ps:pbt/pus pt:por qu:que/quy rm:roh rn:run ro:ron/rum ru:rus rw:kin sa:san sc:srd "
            "sd:snd se:sme sg:sag si:sin sk:slk/slo sl:slv sm:smo sn:sna so:som sq:alb/als/sqi sr:srp "
            "ss:ssw st:sot su:sun sv:swe sw:swa/swh ta:tam te:tel tg:tgk th:tha ti:tir tk:tuk tl:fil/tgl "
            "tn:tsn to:ton tr:tur ts:tso tt:tat tw:twi ty:tah ug:uig uk:ukr ur:urd uz:uzb/uzn ve:ven vi:vie "
            "vo:vol wa:wln wo:wol xh:xho yi:ydd/yid yo:yor za:zha zh:chi/cmn/zho zu:zul"
        ).split()
    )
    for longer_code in other_codes.split("/")
}
"""The two-letter code of ISO 639 for each three-letter code, each withdrawn two-letter code, and the code of
the standard variety of a macrolanguage such as Arabic or Persian."""

SEPARATOR = re.compile("[-_]")
LANGUAGE_TAG = re.compile(r"<[^<>\s]+>|>>[^<>\s]+<<")
"""A language tag at the start of a source: ``>>deu<<`` (OPUS-MT) or ``<2de>`` (Johnson et al. 2017)."""
SCRIPT_LETTERS = 4
"""Length of the code of a script, such as ``Latn``."""


MAX_CODE_CHARACTERS = 32
"""Maximum number of characters of a code; requests may contain longer strings, which are not codes."""


def base_language(code: str) -> str:
    """Return the language of a code such as ``pt_BR`` or ``eng_Latn``, without script and region.

    The two-letter code of ISO 639 is returned for a language that has one. A string that is too long for a
    code is returned unchanged.
    """
    return code if len(code) > MAX_CODE_CHARACTERS else _base_language(code)


@lru_cache(maxsize=1024)
def _base_language(code: str) -> str:
    language = SEPARATOR.split(code.lower())[0]
    return TWO_LETTER_CODES.get(language, language)


def same_language(first: str, second: str) -> bool:
    """Return whether two codes denote the same language, such as ``en``, ``en_XX`` and ``eng_Latn``.

    Regions are ignored, but codes that name different scripts (``zh_Hans``, ``zh_Hant``) differ.
    """
    if base_language(first) != base_language(second):
        return False
    scripts = [
        {part for part in SEPARATOR.split(code.lower())[1:] if len(part) == SCRIPT_LETTERS}
        for code in (first, second)
    ]
    return not all(scripts) or scripts[0] == scripts[1]


CHINESE_SCRIPTS = {
    **dict.fromkeys(("zh-cn", "zh-sg", "zh-my"), "zh-Hans"),
    **dict.fromkeys(("zh-tw", "zh-hk", "zh-mo"), "zh-Hant"),
}


def with_script(code: str) -> str:
    """Return a Chinese code with its script, such as ``zh-Hant`` for ``zh-TW``; other codes are unchanged."""
    return CHINESE_SCRIPTS.get(code.lower().replace("_", "-"), code)


def with_region(code: str) -> str:
    """Return a Chinese code with a region, ``zh-CN`` or ``zh-TW``; other codes are unchanged."""
    if base_language(code) != "zh":
        return code
    return "zh-TW" if with_script(code).lower().endswith("hant") else "zh-CN"


LATIN_LANGUAGES = (
    "en de fr es it pt nl sv da no nb nn fi et lv lt pl cs sk sl hr ro hu "
    "tr sq is ga id ms vi tl ca gl eu mt cy af sw eng deu fra spa ita por nld pol ces"
)
"""Languages written in Latin letters."""
LATIN, CYRILLIC, ARABIC, DEVANAGARI = ("LATIN",), ("CYRILLIC",), ("ARABIC",), ("DEVANAGARI",)
GREEK = ("GREEK",)
ALPHABETS = (LATIN, CYRILLIC, GREEK)
"""Scripts of languages that use neither joiners nor full-width forms."""
HAN = ("CJK", "IDEOGRAPHIC", "KANGXI", "BOPOMOFO")
SCRIPTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(LATIN_LANGUAGES.split(), LATIN),
    **dict.fromkeys(["ru", "uk", "bg", "be", "mk", "rus", "ukr", "bul", "bel", "mkd"], CYRILLIC),
    **dict.fromkeys(["ar", "fa", "ur", "ps", "ug", "ckb", "ara", "arb", "fas", "pes", "urd"], ARABIC),
    **dict.fromkeys(["hi", "mr", "ne", "sa", "hin", "mar", "npi"], DEVANAGARI),
    **dict.fromkeys(["zh", "yue", "zho", "cmn"], HAN),
    **dict.fromkeys(["ja", "jpn"], (*HAN, "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA")),
    **dict.fromkeys(["ko", "kor"], ("HANGUL", *HAN)),
    **dict.fromkeys(["el", "ell"], GREEK),
    **dict.fromkeys(["he", "yi", "heb"], ("HEBREW",)),
    **dict.fromkeys(["ka", "kat"], ("GEORGIAN",)),
    **dict.fromkeys(["hy", "hye"], ("ARMENIAN",)),
    **dict.fromkeys(["bn", "as", "ben", "asm"], ("BENGALI",)),
    **dict.fromkeys(["ta", "tam"], ("TAMIL",)),
    **dict.fromkeys(["te", "tel"], ("TELUGU",)),
    **dict.fromkeys(["th", "tha"], ("THAI",)),
    **dict.fromkeys(["am", "ti", "amh", "tir"], ("ETHIOPIC",)),
}
"""The first words of the Unicode names of a language's letters; languages that are not listed are not
checked."""


def language_scripts(language: str) -> tuple[str, ...] | None:
    """Return the first words that Unicode names of a language's letters may have, or None if unlisted."""
    return SCRIPTS.get(base_language(language))


@lru_cache(1 << 16)
def character_script(character: str) -> str:
    """Return the first word of a letter's Unicode name, or an empty string for any other character."""
    return unicodedata.name(character, "").partition(" ")[0] if character.isalpha() else ""
