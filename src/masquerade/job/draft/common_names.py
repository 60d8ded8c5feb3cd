"""Frequent first and last names of the larger European languages, by which a column of people's names is recognised.

In small letters without accents. Words that also name colours, jobs, places or months are left out.
"""

from __future__ import annotations

_FIRST = """
    aaron adam adrian agnes agnieszka aino alan albert alejandro aleksander alessandro alessia alexander alexandra
    alfred alice alicia amanda amelia ana anastasia anders andrea andreas andrew andrzej angela angelika anita
    anja anna anne annika antoine anton antonio arthur astrid barbara bartosz beatriz benjamin bernard bernd
    birgit bjorn brian brigitte camille carla carlos carmen carol caroline catherine cecilia celine charles chiara
    chloe christina christine christoph christopher claire claudia clement cristina daniel daniela daniele david
    deborah denise dennis diego dieter dimitris dominik donald donna dorota dorothy eduardo edward eero eleni
    elena elias elizabeth ella emil emilia emily emma emmanuel enrico erik erika erkki ester eva ewa fabian
    federica felix fernando filip florian francesca francesco francisco francois frank franz frederic fredrik
    gabor gabriel gabriele georg george georgios gerard gerhard giorgio giovanna giovanni giulia giuseppe gonzalo
    grazyna gregory guillaume gunther gustav hanna hannah hannele hans harald harry heather heidi heinrich heinz
    helen helena helga henrik herbert horst hugo ian ines ingrid irena isabel isabella istvan ivan ivana jacek
    jack jacob jacques jakub james jan jana jane janet jaroslav javier jean jennifer jens jerzy jessica jesus jiri
    joanna joao joel johan johanna johannes john jonas jonathan jorge jorgen jose josef joseph joshua juan judith
    juha juhani julia julie julien jurgen justine kaija kari karen karin karl karolina katarzyna katarina kateryna
    katerina katherine kathleen kenneth kerstin kevin kimberly klaus konstantinos krystyna krzysztof lars lasse
    laszlo laura laurent lea lena leon leonardo leonie liam liisa lina linda lisa lorenzo louise luca lucas lucia
    lucie luis lukas lukasz maciej magdalena malgorzata manfred manuel manuela marcel marcin marco marcus margaret
    margarita maria marie marina mario marjatta markus marta martin martina mary matteo matthew matthias matti
    maurice maximilian melissa michael michaela michal michel michelle mikael mikko miguel miroslav mohamed
    mohammed monica monika monique muhammad mustafa mehmet ahmet ayse fatma emine natalia nathalie nicholas nicola
    nicolas nicole niels nikolaos nils nina noah nora olaf olga oliver olivia olivier oscar otto pablo pamela
    paola paolo pascal patricia patrick patrizia paul paula pauline pawel pedro pekka petr petra peter philip
    philippe pierre piotr rafael rainer ralf raquel rebecca renata renate ricardo richard rita robert roberto
    roger roland ronald rosa rosario ruth ryan sabine salvatore samantha samuel sandor sandra sara sarah sebastian
    sergio silvia simon simone sofia sophie stanislaw stefan stefania stefano stephanie stephen steven susan
    susanne sven svetlana sylvia sylvie tamara tatiana teresa theresa thierry thomas tiago timo timothy tobias
    tomas tomasz tuula ulrich ulrike ursula ute valentina valerie vaclav vera veronica veronika vincent viktor
    vladimir waltraud werner wilhelm william wojciech wolfgang yannick yves zbigniew zdenek zofia zsuzsanna zoltan
"""
_LAST = """
    smith jones williams johnson davis wilson anderson thompson robinson harris clark lewis allen wright scott
    moore evans edwards roberts hughes thomas phillips turner parker collins murphy kelly sullivan obrien mcdonald
    campbell stewart morris rogers bailey richardson watson brooks bennett griffiths owen jenkins miller taylor
    walker khan patel singh ahmed ali hussain begum muller mueller schmidt schneider weber meyer wagner becker
    schulz schulze hoffmann schafer schaefer bauer koch richter schroder schroeder neumann zimmermann kruger
    krueger hofmann hartmann schmitt krause meier lehmann schmid maier kohler herrmann walter mayer huber kaiser
    fuchs peters scholz moller moeller keller vogel friedrich gunther berger winkler roth baumann gruber pichler
    steiner moser egger brunner bernard dubois durand moreau lefebvre leroy roux bertrand morel fournier girard
    bonnet dupont lambert fontaine rousseau guerin henry faure roussel chevalier gauthier perrin clement morin
    dumont robin masson garcia rodriguez gonzalez fernandez lopez martinez sanchez perez gomez jimenez ruiz
    hernandez diaz moreno munoz alvarez romero alonso gutierrez navarro torres dominguez vazquez ramos gil ramirez
    serrano molina morales suarez ortega delgado ortiz rubio marin sanz iglesias rossi russo ferrari esposito
    bianchi colombo ricci marino greco bruno gallo conti mancini costa giordano rizzo lombardi moretti barbieri
    fontana santoro mariani rinaldi caruso ferrara galli martini longo vitale silva santos ferreira pereira
    oliveira rodrigues martins sousa souza fernandes goncalves gomes lopes marques alves almeida ribeiro pinto
    carvalho teixeira moreira correia mendes nunes soares vieira monteiro cardoso jong jansen vries bakker dijk
    visser smit meijer boer mulder hendriks leeuwen dekker brouwer dijkstra peeters janssens maes willems mertens
    claes goossens wouters nowak kowalski kowalska wisniewski wisniewska wojcik kowalczyk kaminski kaminska
    lewandowski lewandowska zielinski zielinska szymanski szymanska wozniak dabrowski dabrowska kozlowski
    kozlowska jankowski mazur kwiatkowski krawczyk andersson johansson karlsson nilsson eriksson larsson olsson
    persson svensson gustafsson pettersson jonsson jansson hansson bengtsson lindberg lindstrom jensen nielsen
    hansen pedersen andersen christensen larsen sorensen rasmussen jorgensen petersen madsen kristensen olsen
    johansen haugen hagen kristiansen karlsen johnsen eriksen korhonen virtanen makinen nieminen makela hamalainen
    laine heikkinen koskinen jarvinen lehtonen lehtinen saarinen salminen heinonen niemi heikkila salonen kinnunen
    turunen novak novakova svoboda svobodova novotny novotna dvorak dvorakova prochazka prochazkova kucera
    kucerova vesely vesela horak horakova nemec nemcova pokorny pokorna nagy kovacs toth szabo horvath varga kiss
    molnar nemeth farkas balogh papp takacs juhasz lakatos meszaros papadopoulos papadopoulou georgiou dimitriou
    ioannou nikolaidis pappas vasileiou konstantinou yilmaz kaya demir celik sahin yildiz yildirim ozturk aydin
    ozdemir arslan dogan kilic aslan cetin ivanov ivanova petrov petrova popescu ionescu nguyen
"""

COMMON_NAMES = frozenset(f"{_FIRST} {_LAST}".split())
