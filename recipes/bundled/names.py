"""Names, places and addresses of which sentences are generated, each with its German form."""

from __future__ import annotations

FIRST = """Anna Maria Peter Paul Jan Eva Lukas Lena Felix Sofia Noah Emma Olga Piotr Ewa Karl Heinz Ingrid
Ahmed Fatima Ali Yusuf Leila Hassan Chen Wei Mei Yuki Kenji Haruto Priya Arjun Ravi Sunita Carlos
Lucia Diego Elena Marco Giulia Luca Chiara Pierre Camille Antoine Louise Sven Astrid Lars Freya
Magnus Ingmar Katarzyna Agnieszka Tomasz Wojciech Zofia Jakub Irina Sergei Natasha Dmitri Vladimir
Oksana Taras John Mary Tom James Robert Michael William David Richard Joseph Thomas Charles
Christopher Daniel Matthew Anthony Mark Donald Steven Andrew Kenneth Joshua Kevin Brian George
Edward Ronald Timothy Jason Jeffrey Ryan Jacob Gary Nicholas Eric Jonathan Stephen Larry Justin
Scott Brandon Benjamin Samuel Gregory Frank Patricia Jennifer Linda Elizabeth Barbara Susan Jessica
Sarah Karen Nancy Lisa Betty Margaret Sandra Ashley Kimberly Emily Donna Michelle Carol Amanda
Melissa Deborah Stephanie Rebecca Laura Sharon Cynthia Kathleen Amy Angela Shirley Brenda Pamela
Nicole Helen Samantha Katherine Christine Debra Rachel Carolyn Janet Catherine Heather Diane Olivia
Julie Joyce Victoria Kelly Ruth Virginia Lauren Joan Evelyn Judith Megan Cheryl Andrea Hannah Martha
Jacqueline Frances Gloria Ann Teresa Kathryn Sara Janice Jean Alice Madison Doris Abigail Julia Judy
Grace Denise Amber Marilyn Beverly Danielle Theresa Sophia Marie Diana Brittany Natalie Isabella
Charlotte Rose Alexis Kayla Greta Hilda Otto Fritz Jürgen Günther Björn Zoë Chloé Renée André
François José Søren Håkon Łukasz Małgorzata Agáta Jiří Dvořák Bjørn Åsa""".split()
LAST = """Smith Jones Taylor Brown Williams Wilson Johnson Davies Robinson Wright Thompson Evans Walker White
Roberts Green Hall Wood Jackson Clarke Nowak Kowalski Wiśniewski Wójcik Kamińska Lewandowski
Zieliński Müller Schmidt Schneider Fischer Weber Meyer Wagner Becker Schulz Hoffmann Koch Richter
Klein Wolf Schröder Neumann Schwarz Braun Krüger Hofmann Hartmann Lange Werner Krause Lehmann Garcia
Martinez Rodriguez Lopez Hernandez Gonzalez Perez Sanchez Rossi Russo Ferrari Esposito Bianchi
Romano Dubois Moreau Laurent Lefebvre Ivanov Petrov Sidorov Kuznetsova Tanaka Suzuki Takahashi
Watanabe Yamamoto Nakamura Wang Zhang Liu Huang Patel Singh Kumar Sharma Gupta Khan Rahman Andersson
Johansson Hansen Olsen Nielsen Jensen Virtanen Korhonen O'Brien Murphy Kelly Sullivan McCarthy
Campbell Stewart MacDonald Reid Baker Turner Parker Collins Edwards Morris Rogers Reed Cook Morgan
Bell Bailey Cooper Richardson Cox Howard Ward Peterson Gray Ramirez Watson Brooks Sanders Price
Bennett Barnes Ross Henderson""".split()
# only where the two languages differ
CITIES = {
    "Warsaw": "Warschau", "Cologne": "Köln", "Munich": "München", "Vienna": "Wien", "Prague": "Prag",
    "Rome": "Rom", "Milan": "Mailand", "Venice": "Venedig", "Florence": "Florenz", "Naples": "Neapel",
    "Moscow": "Moskau", "Athens": "Athen", "Lisbon": "Lissabon", "Copenhagen": "Kopenhagen",
    "Brussels": "Brüssel", "Geneva": "Genf", "Zurich": "Zürich", "Nuremberg": "Nürnberg",
    "Hanover": "Hannover", "Cracow": "Krakau", "Gdansk": "Danzig", "Wroclaw": "Breslau",
    "Bucharest": "Bukarest", "Belgrade": "Belgrad", "Kiev": "Kiew", "Cairo": "Kairo", "Tokyo": "Tokio",
    "Beijing": "Peking", "Havana": "Havanna", "Mexico City": "Mexiko-Stadt",
}  # fmt: skip
SAME_CITIES = """Berlin Hamburg Dresden Leipzig Frankfurt Stuttgart Bremen Bonn Kassel Rostock Erfurt London
Paris Madrid Barcelona Valencia Sevilla Oslo Stockholm Helsinki Budapest Dublin Edinburgh Glasgow
Manchester Liverpool Birmingham Bristol Leeds Oxford Cambridge Boston Chicago Denver Dallas Houston
Seattle Detroit Philadelphia Baltimore Toronto Montreal Vancouver Ottawa Sydney Melbourne Auckland
Wellington Osaka Kyoto Seoul Shanghai Bangkok Hanoi Delhi Mumbai Nairobi Lagos Accra Dakar Tunis
Casablanca Istanbul Ankara Izmir Teheran Bogota Lima Quito Santiago Montevideo Amsterdam Rotterdam
Utrecht Antwerpen Gent Lyon Marseille Nantes Bordeaux Toulouse Lille Turin Bologna Verona Palermo
Graz Linz Salzburg Innsbruck Bern Basel Lausanne Riga Tallinn Vilnius Minsk Sofia Zagreb Ljubljana
Bratislava Skopje Poznan Lublin Katowice Torun Gdynia Brno Ostrava Debrecen Szeged Pisa Siena Porto
Faro Granada""".split()
COUNTRIES = {
    "Poland": "Polen", "Germany": "Deutschland", "Austria": "Österreich", "France": "Frankreich",
    "Spain": "Spanien", "Italy": "Italien", "Greece": "Griechenland", "Norway": "Norwegen",
    "Sweden": "Schweden", "Finland": "Finnland", "Denmark": "Dänemark", "Russia": "Russland",
    "Hungary": "Ungarn", "Romania": "Rumänien", "Canada": "Kanada", "Brazil": "Brasilien",
    "Argentina": "Argentinien", "Mexico": "Mexiko", "Japan": "Japan", "China": "China", "India": "Indien",
    "Egypt": "Ägypten", "Kenya": "Kenia", "Australia": "Australien", "Ireland": "Irland",
    "Scotland": "Schottland", "Portugal": "Portugal", "Belgium": "Belgien", "Croatia": "Kroatien",
    "Bulgaria": "Bulgarien", "Lithuania": "Litauen", "Latvia": "Lettland", "Estonia": "Estland",
    "Chile": "Chile",
}  # fmt: skip
MONTHS = list(
    zip(
        "January February March April May June July August September October November December".split(),
        "Januar Februar März April Mai Juni Juli August September Oktober November Dezember".split(),
        strict=True,
    )
)
DAYS = list(
    zip(
        "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(),
        "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag".split(),
        strict=True,
    )
)
STREETS = [
    street.strip()
    for street in """High Street| Main Street| Park Avenue| Church Lane| Station Road| Mill Road| King's Road|
Queen Street| Oak Avenue| Elm Street| Maple Drive| Victoria Road| Baker Street| Bridge Street|
Hauptstraße| Bahnhofstraße| Gartenweg| Schulstraße| Lindenallee| Goethestraße| Schillerplatz|
Am Markt| Marktplatz| Mozartstraße| Rue de la Paix| Via Roma| ulica Długa| Calle Mayor| Nowy Świat|
Kirchgasse| Rosenweg| Bergstraße| Mühlenweg| Fifth Avenue| Broadway| Sunset Boulevard""".split("|")
]
WORDS = """info office hello contact shop news team kontakt mail post service admin support sales editor desk
box lamp river stone garden bridge cloud forest paper pixel tiger apple orange silver golden north
south winter summer museum school hotel bakery cinema library radio studio travel flower doctor
market coffee bike""".split()
TLD = """com org net de pl eu co.uk fr at ch info example io""".split()
