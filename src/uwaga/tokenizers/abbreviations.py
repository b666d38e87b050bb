"""The uses of the full stop in each language: abbreviations, words that begin sentences, ordinal numbers.

The lists contain abbreviations that precede capital letters and digits, as no sentence begins in lower case
(rule SB8 of Unicode's Annex 29). Entries are in lower case, without their last full stop.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from uwaga.languages.codes import base_language


@dataclass(frozen=True)
class FullStops:
    """A language's use of the full stop.

    A sentence does not end after ``titles``, nor after ``before_numbers`` if a number follows. After
    ``final``, initials and acronyms, it ends if one of the ``starters`` follows; in a language without
    starters, it ends after ``final`` if any capital letter follows. ``ordinals`` tells which numbers with a
    full stop are ordinals: ``all`` (German *3. Mai*) or ``roman`` (Czech *Karel IV. Lucemburský*). ``marks``
    are further marks that end sentences.
    """

    titles: frozenset[str]
    before_numbers: frozenset[str] = frozenset()
    final: frozenset[str] = frozenset()
    starters: frozenset[str] = frozenset()
    ordinals: str = ""
    marks: str = ""

    @cached_property
    def abbreviations(self) -> frozenset[str]:
        """All abbreviations: titles, and those that precede numbers or may end a sentence."""
        return self.titles | self.before_numbers | self.final


def _build(
    titles: str = "",
    before_numbers: str = "",
    final: str = "",
    starters: str = "",
    ordinals: str = "",
    marks: str = "",
) -> FullStops:
    return FullStops(
        frozenset((titles + COMMON_TITLES).split()),
        frozenset((before_numbers + COMMON_BEFORE_NUMBERS).split()),
        frozenset((final + COMMON_FINAL).split()),
        frozenset(starters.split()),
        ordinals,
        marks,
    )


COMMON_TITLES = " dr mr mrs ms mt prof st v vs cf ca e.g i.e"
COMMON_BEFORE_NUMBERS = " art cap fig max min n° nº no nr p pp par tab tel vol №"
COMMON_FINAL = " corp inc jr ltd sr"
"""Abbreviations for all languages, because many of them occur in any language in Latin script."""

LANGUAGES: dict[str, FullStops] = {
    "": _build(final="co"),
    "ar": _build(titles="د أ م"),
    "bg": _build(
        titles="пл г-н г-жа проф д-р инж ул бул гр вж т.е т.нар напр св акад доц",
        before_numbers="стр чл т гл",
        final="г в",
    ),
    "ca": _build(
        titles="sr sra srta dra d p.ex av pl ptge c mn sta",
        before_numbers="pàg pàgs núm núms cap art",
        final="ee.uu s.a a.c d.c",
    ),
    "cs": _build(
        titles=(
            "bc mgr ing mudr judr phdr rndr doc mvdr thdr sv p pí např tzn tzv tj resp popř příp ul "
            "arch gen plk por kpt mjr npor rtm pol zn roz nar zem"
        ),
        before_numbers="č čl str odst s ods obr sv kap r st",
        final="a.s s.r.o n.l př.n.l kč",
        starters=(
            "ten ta to on ona ono oni já ty my vy v ve na z ze s se do od pro po při k ke když kde "
            "kdo co jak proč jestli pokud ale a i nebo však pak potom ne ano je jsou byl byla bylo "
            "byli jeho její jejich také tam tady teď"
        ),
        ordinals="roman",
    ),
    "da": _build(
        titles=(
            "f.eks bl.a bl ca d.v.s dvs fr hr frk sct skt ing cand mag adv kgl jf ifm vedr pga fx "
            "ekskl inkl evt"
        ),
        before_numbers="nr s kap pkt stk afs",
        final="m.m a/s co kr e.kr f.kr",
        starters=(
            "det den de der en et han hun jeg vi du hvis hvad hvor hvem hvorfor hvordan når men og i "
            "på da så efter før med for til alle nu her dette disse denne også"
        ),
        ordinals="roman",
    ),
    "de": _build(
        titles=(
            "fr hr hrn n dipl ing med jur nat rer univ bspw z.b d.h i.d.r i.a i.v u.u z.t "
            "z.zt z.z s.o s.u v.a o.g m.e evtl ggf bzw vgl sog insb inkl exkl zzgl gem hl kath ev "
            "geb gest verh ehem allg kgl anm bd bde hg mind stv "
            "stellv vors verf abb ober-ing priv"
        ),
        before_numbers="abs s kap abschn rdnr rn ziff lfd ausg version okt nov dez jan feb febr aug sept apr",
        final=(
            "usw etc co ff f phil v.chr n.chr e.v u.s.w u.v.m uvm m.b.h ag dgl u.dgl u.a u.ä o.ä hrsg aufl "
            "str bhf hbf jh mio mrd"
        ),
        starters=(
            "der die das den dem des ein eine einer eines einem einen er sie es ich wir ihr du man "
            "wenn als aber und oder doch denn dann da dies dieser diese dieses diesen diesem hier "
            "dort heute gestern morgen jetzt nun in im am an auf aus bei beim mit nach von vom vor zu "
            "zum zur für durch über unter um seit während wegen trotz ohne gegen so wie was wer wo "
            "wann warum wieso weshalb welche welcher welches ob weil obwohl damit sein seine seiner "
            "ihre ihren ihrem mein meine unser unsere dein deine euer eure kein keine nicht nur auch "
            "noch schon bereits allerdings außerdem jedoch dabei daher deshalb danach dazu darum "
            "jeder jede jedes alle viele einige beide ist sind war waren hat haben hatte kann können "
            "wird werden ja nein bitte"
        ),
        ordinals="all",
    ),
    "el": _build(
        titles="κ κα κος δρ καθ αρ π.χ δηλ βλ αγ οδ λεωφ",
        before_numbers="σελ σ κεφ",
        final="μ.χ",
        marks=";\u037e",
    ),
    "en": _build(
        titles=(
            "messrs mmes mx rev hon pres gov sen rep gen col maj capt cpt cmdr lt sgt cpl adm brig "
            "supt insp det fr br esq mgr asst assoc dept univ mt viz approx resp ave blvd rd hwy incl "
            "excl attn"
        ),
        before_numbers=(
            "nos nrs sec secs sect ch chap chaps eq eqs ex figs vols pt pts op v ver vers ref refs "
            "ser cl para paras l ll n nn c jan feb mar apr jun jul aug sep sept oct nov dec fn bk tel "
            "ext apt rm"
        ),
        final="al bros co ed eds plc llc st mt ft ave blvd rd dept",
        starters=(
            "the an a this that these those it its it's he he's she she's we we're we've they they're "
            "they've you you're i i'm i've i'd i'll he'll she'll they'll we'll my your his her our "
            "their there there's here here's what what's when where who whose why how which while if "
            "in on at as but and or so for from after before since although though however therefore "
            "then thus also another is are was were do does did don't doesn't didn't can could would "
            "should has have had not no yes let let's please once each both all some many most such "
            "perhaps maybe instead moreover furthermore meanwhile later now today nobody everyone "
            "everything nothing something because by with without during under over between through "
            "among until unless"
        ),
    ),
    "es": _build(
        titles=(
            "ee rr ff jj sr sres sra sras srta dra dres d dña ud uds vd vds lic ing arq abg gral cnel "
            "cap tte sto sta fr hno excmo excma ilmo av avda c ctra pza pl p.ej ej mons pbro tel atte "
            "admón depto dpto prov pdte aprox"
        ),
        before_numbers=(
            "pág págs núm núms n.º nº art arts cap vol ed inc apdo párr párrf lun mar mié jue vie sáb "
            "dom ene feb abr may jun jul ago sept oct nov dic"
        ),
        final="s.a s.l s.a.s ee.uu rr.hh uu hh aa a.c d.c a.m p.m cía vda",
        starters=(
            "el la los las lo un una unos unas este esta estos estas ese esa eso esto aquel él ella "
            "ellos ellas yo tú nosotros usted ustedes en de por para con sin según sobre desde hasta "
            "cuando donde como si no sí pero y o aunque porque entonces luego después antes también "
            "además hay es son fue era está están ha han qué quién cómo cuándo dónde cuál se me te le "
            "nos su sus mi mis tu al a"
        ),
    ),
    "fi": _build(
        titles="esim ks mm n oik prof toht tri rva hra maist past ent nk ns os puh vrt",
        before_numbers="s luku art",
        final="e.kr j.kr oy",
        ordinals="roman",
    ),
    "fr": _build(
        titles=(
            "m mm mme mmes mlle mlles me mes mgr pr vve ste sts stes p.ex ex av bd boul fg imp r éd "
            "env gal cdt lt sgt cne réf tél hab adj"
        ),
        before_numbers=(
            "n° nº n no nos pp art chap fig ch vol t livr janv févr avr juil sept oct nov déc al §"
        ),
        final="s.a s.a.r.l cie ets apr.j.-c av.j.-c j.-c suiv",
        starters=(
            "le la les l un une des ce cet cette ces il elle on ils elles je j nous vous tu en dans à "
            "au aux de du par pour avec sans sur sous depuis pendant lorsque quand si mais et ou où "
            "donc car comme que qui quoi quel quelle pourquoi comment combien c'est ceci cela ça son "
            "sa ses leur leurs notre nos votre mon ma mes ton ta tes plus puis ensuite alors ainsi "
            "aussi cependant toutefois après avant malgré selon tous toutes chaque aucun ne pas voici "
            "voilà est était y"
        ),
    ),
    "hi": _build(titles="डॉ श्री प्रो श्रीमती सु कु पं मो"),
    "bn": _build(titles="ডা ডঃ ড মো"),
    "ml": _build(titles="ഡോ മി പ്രൊ ശ്രീ"),
    "hu": _build(
        titles="dr ifj id özv pl ill kb vö ft szt gr br ker",
        before_numbers="old sz fej köt évf",
        final="rt kft bt zrt",
        ordinals="roman",
    ),
    "hy": _build(marks=":"),
    "it": _build(
        titles=(
            "sig sigg sigra sig.ra sig.na sigre dott dottssa dott.ssa ing avv geom rag arch on sen "
            "mons ill egr gent spett dir amm sac p.es es ad.es col gen magg v.le p.za c.so pza ss s.s "
            "prov psicol idraul econ fam card"
        ),
        before_numbers=(
            "pag pagg n nn nr num lett co cpv cap sez ediz genn febb mar apr magg giu lug ago sett "
            "ott nov dic"
        ),
        final="s.p.a s.r.l a.c d.c f.lli",
        starters=(
            "il lo la i gli le l un uno una questo questa questi queste quello quella egli lui lei "
            "loro io noi voi tu in di da a al per con senza su tra fra dopo prima quando dove come se "
            "ma e o però perché allora poi anche inoltre non sì no è sono era ha hanno che chi cosa "
            "quale quanto si mi ti ci suo sua mio mia nostro c'è"
        ),
    ),
    "nl": _build(
        titles=(
            "dhr mevr mw drs ir mr ing prof bv bijv b.v d.w.z o.a m.n t.a.v i.v.m m.b.t o.l.v z.g nl "
            "resp ca evt incl excl aanw vnw zgn jhr gebr str gem v.d ds"
        ),
        before_numbers="blz pag nr nrs art hfst afb fig",
        final="e.d n.v v.chr n.chr jr dgl",
        starters=(
            "de het een dit dat deze die hij zij ze we wij ik jij je u jullie er hier daar in op aan "
            "van voor met naar door over onder tot sinds als toen wanneer waar wie wat waarom hoe "
            "maar en of want dus dan ook nog niet geen na bij uit zijn haar hun ons onze mijn is was "
            "heeft"
        ),
    ),
    "pl": _build(
        titles=(
            "p prof mgr inż inz lek med hab lic ks bp abp kard św bł gen płk ppłk mjr kpt por ppor "
            "sierż kpr red doc dyr ul al pl os woj pow gm m.in np tzn tzw tj ob zob wg godz zw dn "
            "pt ww mec adw"
        ),
        before_numbers="ok s str nr poz pkt ust art rozdz rys t z r",
        final="im r w zł n.e p.n.e sp z.o.o s.a tys mln mld",
        starters=(
            "to ten ta te ci ona on ono oni one ja ty my wy w we z ze na do po od dla przez przy o u "
            "za nad pod przed kiedy gdy gdzie kto co jak dlaczego czy jeśli jeżeli ale lecz i a oraz "
            "więc jednak także również potem następnie nie tak jest są był była było były jego jej "
            "ich mój moja nasz wszystkie każdy tam tu teraz dziś wczoraj jutro się"
        ),
        ordinals="roman",
    ),
    "pt": _build(
        titles=(
            "sr sra srs sras srta dra drs exmo exma ilmo d eng arq av avda r pça pç cel gen maj sto "
            "sta p.ex ex prof profa aprox depto resp"
        ),
        before_numbers=(
            "n.º nº núm pág págs art arts cap vol ed inc al fl fls jan fev mar abr jun jul ago set "
            "out nov dez"
        ),
        final="s.a ltda cia e.u.a eua a.c d.c a.m p.m",
        starters=(
            "o a os as um uma uns umas este esta estes estas esse essa isso isto aquele aquela ele "
            "ela eles elas eu nós você vocês tu em no na nos nas de do da dos das por pelo pela para "
            "com sem sob sobre desde até quando onde como se mas e ou porque então depois antes "
            "também além não sim é são foi era está estão há que quem qual seu sua meu minha ao à"
        ),
    ),
    "ro": _build(
        titles=(
            "dl dlui dna dra d-l d-na d-lui ing av sf str bd bdul acad conf lect univ col gen mr lt "
            "nr al jud com ex"
        ),
        before_numbers="nr pag pct lit alin cap",
        final="ș.a ş.a s.a s.r.l d.hr î.hr î.e.n e.n",
    ),
    "ru": _build(
        titles=(
            "т.е т.к т.н т.наз т.о напр см ср ул пл пер просп наб акад проф доц канд инж гр г-н "
            "г-жа св пгт ок корп обл респ пос дер оз ред изд сост тов"
        ),
        before_numbers="с стр гл п пп ст рис табл т тт д кв тел мин",
        final="гг им пр р г в вв н.э тыс млн млрд руб коп",
        starters=(
            "это этот эта эти он она оно они я ты мы вы в во на по с со из у к ко о об от до для при "
            "за под над без после перед когда где куда откуда кто что как почему зачем если хотя но а "
            "и или однако поэтому затем потом также не да нет там тут здесь сейчас теперь его её ее "
            "их мой моя наш наша все всё каждый был была было были есть"
        ),
    ),
    "sk": _build(
        titles=(
            "bc mgr ing mudr judr phdr rndr doc mvdr sv p pí napr tzn tzv tj resp popr príp ul arch "
            "gen plk por kpt mjr pl nar zn t.j t.zn t.č hl"
        ),
        before_numbers="č čl str ods s obr kap r st",
        final="a.s s.r.o n.l pred",
        starters=(
            "ten tá to on ona ono oni ja ty my vy v vo na z zo s so do od pre po pri keď kde kto čo "
            "ako prečo ak ale a i lebo však potom nie áno je sú bol bola bolo boli jeho jej ich"
        ),
        ordinals="roman",
    ),
    "sl": _build(
        titles="dr mag ing prof doc g gdč sv npr oz tj t.i ul tel dipl univ inž akad",
        before_numbers="str št čl odst pogl sl",
        final="d.o.o d.d pr n.št kr",
        ordinals="roman",
    ),
    "sv": _build(
        titles="t.ex bl.a d.v.s dvs s.k f.d fr hr ing jfr kl resp inkl exkl ev ca tel kungl st obs",
        before_numbers="nr s sid kap avs",
        final="e.kr f.kr kr",
        starters=(
            "det den de en ett han hon jag vi du ni om vad var vem varför hur när men och i på så "
            "efter före med för till alla nu här detta dessa denna också"
        ),
    ),
    "tr": _build(
        titles="sn av doç uzm op yrd bkz örn mah cad sok apt hz alb gen yzb ör yy",
        before_numbers="s sf no md",
        final="a.ş ltd şti",
        ordinals="all",
    ),
    "uk": _build(
        titles=(
            "м с чл журн т.зв т.к т.ч напр див пор вул пл пров просп наб акад проф доц канд інж гр "
            "п св ок корп обл ред вид тов"
        ),
        before_numbers="стор гл п пп ст рис табл т буд кв тел хв год",
        final="ім р рр ст н.е тис млн млрд",
        starters=(
            "це цей ця ці він вона воно вони я ти ми ви в у на по з із зі до від для при за під над "
            "без після перед коли де куди хто що як чому якщо хоча але а і й або проте однак тому "
            "потім також не так ні там тут тепер його її їх мій моя наш усі все кожен був була було "
            "були є"
        ),
    ),
}
SIMILAR_LANGUAGES = {
    **dict.fromkeys(("no", "nb", "nn"), "da"),
    **dict.fromkeys(("be", "kk", "ky", "tg", "mn"), "ru"),
    **dict.fromkeys(("bs", "hr", "sr"), "sl"),
    **{"mk": "bg", "gl": "pt", "af": "nl", "lb": "de", "ast": "es", "mr": "hi", "ne": "hi", "et": "fi"},
}
"""Languages that use the rules of another language, each mapped to that language."""


def full_stops(language: str) -> FullStops:
    """Return the rules for a language code such as ``de_AT``, or general rules if the language has none."""
    base = base_language(language)
    return LANGUAGES.get(SIMILAR_LANGUAGES.get(base, base), LANGUAGES[""])
