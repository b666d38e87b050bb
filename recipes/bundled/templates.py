"""Sentences with gaps in English and German, and a function that fills the gaps."""

from __future__ import annotations

from values import Values, upper

# {name} is a method of Values; {name_b}: the same again with another value.
COPY = """\
I was born in {year}.|Ich wurde {year} geboren.
She was born in {year}.|Sie wurde {year} geboren.
He died in {year}.|Er starb {year}.
{first} was born in {year}.|{first} wurde {year} geboren.
In {year}, {full} moved to {city}.|{year} zog {full} nach {city}.
In {year} the war began.|{year} begann der Krieg.
The war ended in {year}.|Der Krieg endete {year}.
The house was built in {year}.|Das Haus wurde {year} gebaut.
This church was built in {year}.|Diese Kirche wurde {year} erbaut.
The city was founded in {year}.|Die Stadt wurde {year} gegründet.
It happened in {year}.|Es geschah {year}.
It was the year {year}.|Es war das Jahr {year}.
The year was {year}.|Es war das Jahr {year}.
{year}|{year}
{year}.|{year}.
From {year} to {year_b} he lived in {city}.|Von {year} bis {year_b} lebte er in {city}.
They got married in {year}.|Sie haben {year} geheiratet.
We have lived here since {year}.|Wir wohnen seit {year} hier.
Since {year} she has been working in {city}.|Seit {year} arbeitet sie in {city}.
I graduated in {year}.|Ich habe {year} meinen Abschluss gemacht.
The company was founded in {year} by {full}.|Das Unternehmen wurde {year} von {full} gegründet.
In the summer of {year} we were in {country}.|Im Sommer {year} waren wir in {country}.
It costs {price}.|Es kostet {price}.
That costs {price}.|Das kostet {price}.
That will be {price}.|Das macht {price}.
I paid {price} for it.|Ich habe {price} dafür bezahlt.
He owes me {price}.|Er schuldet mir {price}.
She earns {price} a month.|Sie verdient {price} im Monat.
The ticket costs {price}.|Die Fahrkarte kostet {price}.
The book cost me {price}.|Das Buch hat mich {price} gekostet.
The rent is {price} a month.|Die Miete beträgt {price} im Monat.
Can you lend me {price}?|Kannst du mir {price} leihen?
The train leaves at {clock}.|Der Zug fährt um {clock} ab.
The bus arrives at {clock}.|Der Bus kommt um {clock} an.
It is {clock}.|Es ist {clock}.
It's {clock} now.|Es ist jetzt {clock}.
We meet at {clock}.|Wir treffen uns um {clock}.
Let's meet at {clock}.|Treffen wir uns um {clock}.
I got up at {clock}.|Ich bin um {clock} aufgestanden.
School starts at {clock}.|Die Schule beginnt um {clock}.
The film starts at {clock}.|Der Film beginnt um {clock}.
The shop is open from {clock} to {clock_b}.|Der Laden ist von {clock} bis {clock_b} geöffnet.
On {day} at {clock} I have an appointment.|Am {day} um {clock} habe ich einen Termin.
The concert is on {date} at {clock}.|Das Konzert ist am {date} um {clock}.
The flight to {city} leaves at {clock}.|Der Flug nach {city} geht um {clock}.
My birthday is on {date}.|Mein Geburtstag ist am {date}.
Today is {date}.|Heute ist der {date}.
I arrived on {date}, {year}.|Ich kam am {date} {year} an.
He was born on {date}, {year}, in {city}.|Er wurde am {date} {year} in {city} geboren.
{first} was born on {date}.|{first} wurde am {date} geboren.
The meeting is on {day}.|Die Besprechung ist am {day}.
{day}, {date}|{day}, {date}
{first} lives in {city}.|{first} wohnt in {city}.
{first} lives in {city}|{first} wohnt in {city}
{full} lives in {city}.|{full} lebt in {city}.
{full} comes from {country}.|{full} kommt aus {country}.
{first} comes from {city}.|{first} kommt aus {city}.
I come from {city}.|Ich komme aus {city}.
I live in {city}.|Ich wohne in {city}.
We flew to {city}.|Wir sind nach {city} geflogen.
{first} and {first_b} are in {city}.|{first} und {first_b} sind in {city}.
My name is {full}.|Ich heiße {full}.
My name is {first}.|Mein Name ist {first}.
His name is {first}.|Er heißt {first}.
Her name is {full}.|Sie heißt {full}.
This is {first}.|Das ist {first}.
This is my friend {first}.|Das ist mein Freund {first}.
Hello, {first}!|Hallo, {first}!
Good morning, {first}.|Guten Morgen, {first}.
Good evening, Mr. {last}.|Guten Abend, Herr {last}.
Mrs. {last} is not here.|Frau {last} ist nicht hier.
Mr. {last} teaches English.|Herr {last} unterrichtet Englisch.
Dr. {last} will see you now.|Dr. {last} empfängt Sie jetzt.
{first} likes {first_b}.|{first} mag {first_b}.
{first} loves {first_b}.|{first} liebt {first_b}.
{first} asked {first_b} for help.|{first} bat {first_b} um Hilfe.
{first} is taller than {first_b}.|{first} ist größer als {first_b}.
Where is {first}?|Wo ist {first}?
Do you know {full}?|Kennst du {full}?
I saw {first} in {city}.|Ich habe {first} in {city} gesehen.
{full} wrote this book.|{full} hat dieses Buch geschrieben.
The book was written by {full}.|Das Buch wurde von {full} geschrieben.
{full} is {number} years old.|{full} ist {number} Jahre alt.
{city} is the most beautiful city in {country}.|{city} ist die schönste Stadt in {country}.
Have you ever been to {city}?|Warst du schon einmal in {city}?
How far is it from {city} to {city_b}?|Wie weit ist es von {city} nach {city_b}?
We took the train from {city} to {city_b}.|Wir nahmen den Zug von {city} nach {city_b}.
My e-mail address is {mail}.|Meine E-Mail-Adresse ist {mail}.
My email is {mail}.|Meine E-Mail-Adresse lautet {mail}.
Please write to {mail}.|Bitte schreiben Sie an {mail}.
Write to me at {mail}.|Schreib mir an {mail}.
Send it to {mail}, please.|Schicken Sie es bitte an {mail}.
You can reach us at {mail}.|Sie erreichen uns unter {mail}.
{mail}|{mail}
See {url}.|Siehe {url}.
See {url} for more information.|Weitere Informationen finden Sie unter {url}.
Visit {url}.|Besuchen Sie {url}.
Our website is {url}.|Unsere Website ist {url}.
I found it on {url}.|Ich habe es auf {url} gefunden.
{url}|{url}
I live at {address}.|Ich wohne {address}.
My address is {address}.|Meine Adresse ist {address}.
Her address is {address}, {city}.|Ihre Adresse ist {address}, {city}.
The shop is at {address}.|Der Laden ist in {address}.
{address}, {city}|{address}, {city}
My phone number is {phone}.|Meine Telefonnummer ist {phone}.
Call {phone}.|Rufen Sie {phone} an.
Call me at {phone}.|Ruf mich unter {phone} an.
The number is {phone}.|Die Nummer ist {phone}.
Is this {phone}?|Ist dort {phone}?
The room number is {number}.|Die Zimmernummer ist {number}.
I am in room {number}.|Ich bin in Zimmer {number}.
There are {number} people here.|Hier sind {number} Leute.
There were {number} students in the room.|Es waren {number} Schüler im Zimmer.
Open your books to page {number}.|Öffnet eure Bücher auf Seite {number}.
He weighs {number} kilograms.|Er wiegt {number} Kilogramm.
It is {number} kilometres from here to {city}.|Von hier bis {city} sind es {number} Kilometer.
It is {number} degrees today.|Heute sind es {number} Grad.
Take bus {number}.|Nehmen Sie den Bus {number}.
I have {number} books.|Ich habe {number} Bücher.
{number} plus {number_b} is more than {number_c}.|{number} plus {number_b} ist mehr als {number_c}.
{number}|{number}
The city has {thousands} inhabitants.|Die Stadt hat {thousands} Einwohner.
{thousands} people live in {city}.|In {city} leben {thousands} Menschen.
The tower is {decimal} metres high.|Der Turm ist {decimal} Meter hoch.
It weighs {decimal} kilos.|Es wiegt {decimal} Kilo.
Prices rose by {decimal} percent.|Die Preise sind um {decimal} Prozent gestiegen.
{decimal}% of the voters said no.|{decimal} % der Wähler sagten Nein.
Your flight number is {code}.|Ihre Flugnummer ist {code}.
The code is {code}.|Der Code lautet {code}.
Platform {number}|Gleis {number}
The train to {city} leaves from platform {number}.|Der Zug nach {city} fährt von Gleis {number} ab.
""".splitlines()
# for the test alone
HELD_OUT = """\
The bridge was finished in {year}.|Die Brücke wurde {year} fertiggestellt.
My grandmother was born in {year} in {city}.|Meine Großmutter wurde {year} in {city} geboren.
In {year} he bought a farm.|{year} kaufte er einen Bauernhof.
Nothing has changed since {year}.|Seit {year} hat sich nichts geändert.
{full} won the prize in {year}.|{full} gewann {year} den Preis.
The shoes cost {price}.|Die Schuhe kosten {price}.
He sold his car for {price}.|Er verkaufte sein Auto für {price}.
Dinner for two was {price}.|Das Abendessen für zwei kostete {price}.
I found {price} in the street.|Ich habe auf der Straße {price} gefunden.
Breakfast is at {clock}.|Frühstück gibt es um {clock}.
She called me at {clock}.|Sie rief mich um {clock} an.
The museum closes at {clock}.|Das Museum schließt um {clock}.
The meeting was moved to {clock}.|Die Besprechung wurde auf {clock} verlegt.
{first} knows {full}.|{first} kennt {full}.
{first} gave {first_b} a book.|{first} gab {first_b} ein Buch.
Yesterday I met {full} in {city}.|Gestern traf ich {full} in {city}.
{full} is my teacher.|{full} ist mein Lehrer.
{first} wants to move to {city}.|{first} möchte nach {city} ziehen.
Please send the letter to {address}.|Bitte schicken Sie den Brief an {address}.
He moved to {address} in {year}.|Er zog {year} in die {address}.
Our new address is {address}, {city}.|Unsere neue Adresse ist {address}, {city}.
If you have questions, write to {mail}.|Wenn Sie Fragen haben, schreiben Sie an {mail}.
Everything is explained at {url}.|Alles wird auf {url} erklärt.
Please call {phone} after {clock}.|Bitte rufen Sie nach {clock} unter {phone} an.
The exam is on {date}.|Die Prüfung ist am {date}.
""".splitlines()
KINDS = set(
    """year number thousands decimal price clock first full last city country date day mail url phone code
    address""".split()
)


def fill(template: str, values: Values) -> tuple[str, str]:
    """Return a pair with its gaps filled; a gap with a suffix (``year_b``) has a different value."""
    source, target = template.split("|")
    selected: dict[str, tuple[str, str]] = {}
    for slot in [piece.partition("}")[0] for piece in source.split("{")[1:]]:
        kind = slot.partition("_")[0]
        if kind not in KINDS:
            raise ValueError(f"{template}: {{{slot}}} is not a value; there are {', '.join(sorted(KINDS))}")
        if slot not in selected:
            selected[slot] = getattr(values, kind)()
    left = source.format(**{slot: pair[0] for slot, pair in selected.items()})
    right = target.format(**{slot: pair[1] for slot, pair in selected.items()})
    return upper(left), upper(right)
