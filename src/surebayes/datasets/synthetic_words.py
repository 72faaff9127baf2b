"""Word lists of the synthetic mail stream: a few hundred everyday words in five languages, sorted by topic.

Each language has words without a topic (``glue``), and ham and spam topics. Some words are in topics of both classes
(an invoice may be real or fake), so that no word list separates the classes. The order matters: a topic's first words
are the most frequent, and with drift the topics are in season in the order of the lists.
"""


def _list(words: str) -> tuple[str, ...]:
    return tuple(words.split())


def _topics(**topics: str) -> dict[str, tuple[str, ...]]:
    return {name: _list(words) for name, words in topics.items()}


GLUE = {
    "en": _list(
        "the to and of a in you for is that it we on this with be your have are at as not will from or if can our by "
        "an all but there was they do please what so just up out about one when which now any time more some than also "
        "been here only new after would could should see get let know before next back first last well still very "
        "good need think make take"
    ),
    "de": _list(
        "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an werden aus er hat "
        "dass sie nach wird bei einer um am sind noch wie einem über so zum haben nur oder aber vor bis mehr durch man "
        "können schon wenn Ihre wir uns heute"
    ),
    "fr": _list(
        "de la le et les des en un du une que est pour qui dans a par plus pas au sur ne se ce il sont avec ou son "
        "vous nous votre été être cette mais comme tout leur bien aussi fait même ses très où peut après déjà "
        "aujourd'hui"
    ),
    "es": _list(
        "de la que el en y a los se del las un por con no una su para es al lo como más o pero sus le ha me si sin "
        "sobre este ya entre cuando todo esta ser son dos también fue había era muy años hasta desde está usted "
        "hoy"
    ),
    "ko": _list(
        "그리고 그러나 또한 이번 오늘 내일 지금 우리 여러분 매우 다시 함께 모든 많은 새로운 좋은 바로 먼저 아직 이미 "
        "대한 위해 통해 관련 있는 없는 하는 됩니다 합니다 있습니다 없습니다 바랍니다 드립니다 주세요"
    ),
}

HAM = {
    "en": _topics(
        meeting="meeting agenda minutes room monday project notes slides schedule team review deadline draft tuesday "
        "attend chair plan proposal calendar budget",
        code="patch build test branch function error compile commit release version file module bug python "
        "kernel server log library install parser",
        family="dinner kids weekend mum photos birthday garden train home visit cake school holiday grandma lake "
        "sunday dog walk picnic love",
        invoice="invoice order payment account attached amount delivery contract customer tax quote due address "
        "receipt transfer bank offer signed department price",
        study="paper thesis chapter data results figure model lecture seminar draft library reference method "
        "student exam course sample theory table university",
        travel="flight hotel ticket booking airport luggage passport gate arrival taxi conference train seat map "
        "museum tour free deal price confirmation",
    ),
    "de": _topics(
        treffen="Besprechung Protokoll Termin Raum Montag Projekt Notizen Folien Plan Abteilung Entwurf Frist "
        "Teilnehmer Vorschlag",
        familie="Abendessen Kinder Wochenende Fotos Geburtstag Garten Oma Urlaub Kuchen Schule Hund Spaziergang "
        "Grüße See",
        rechnung="Rechnung Bestellung Zahlung Konto Anlage Betrag Lieferung Vertrag Kunde Steuer Angebot Überweisung "
        "Preis Bank",
    ),
    "fr": _topics(
        réunion="réunion ordre compte-rendu salle lundi projet notes planning équipe échéance ébauche proposition "
        "présentation budget",
        famille="dîner enfants week-end photos anniversaire jardin mamie vacances gâteau école chien promenade "
        "bises lac",
        facture="facture commande paiement compte pièce montant livraison contrat client taxe offre virement prix "
        "banque",
    ),
    "es": _topics(
        reunión="reunión agenda acta sala lunes proyecto notas diapositivas plan equipo plazo borrador propuesta "
        "presupuesto",
        familia="cena niños domingo fotos cumpleaños jardín abuela vacaciones pastel escuela perro paseo abrazo lago",
        factura="factura pedido pago cuenta adjunto importe entrega contrato cliente impuesto oferta transferencia "
        "precio banco",
    ),
    "ko": _topics(
        회의="회의 일정 자료 발표 월요일 과제 보고서 팀 검토 마감 초안 참석 계획 예산",
        가족="저녁 아이들 주말 사진 생일 정원 할머니 휴가 학교 강아지 산책 사랑 여행 집",
        청구="청구서 주문 결제 계좌 첨부 금액 배송 계약 고객 세금 견적 송금 가격 은행",
    ),
}

SPAM = {
    "en": _topics(
        pills="pills viagra pharmacy prescription cheap doctor weight discount order health tablets herbal safe "
        "shipping online relief natural dose results guaranteed",
        money="money cash income earn rich million opportunity loan credit debt free guaranteed investment profit "
        "weekly home offer risk dollars transfer",
        watches="replica watches luxury brand gold quality price discount sale exclusive designer bags shipping order "
        "deal save genuine leather style offer",
        phishing="account password verify security suspended confirm bank login update urgent customer access click "
        "payment limited identity department invoice service address",
        dating="singles lonely girls meet chat photos profile tonight hot private webcam waiting sexy love friend "
        "date visit young sweet secret",
        lottery="winner lottery prize claim congratulations million award ticket fund lucky draw agent transfer "
        "beneficiary confidential amount contact bank attached receipt",
    ),
    "de": _topics(
        pillen="Pillen Apotheke billig Rezept Arzt abnehmen Rabatt bestellen Gesundheit Tabletten garantiert Versand "
        "natürlich Wirkung",
        geld="Geld Gewinn Kredit Einkommen reich Million kostenlos Angebot verdienen Chance Bonus Schulden sofort "
        "garantiert",
        konto="Konto Passwort bestätigen Sicherheit gesperrt Bank Anmeldung dringend Kunde Zugang klicken Zahlung "
        "Rechnung Überprüfung",
    ),
    "fr": _topics(
        pilules="pilules pharmacie ordonnance médecin régime remise commander santé comprimés garanti livraison "
        "naturel effet minceur",
        argent="argent gain crédit revenu riche million gratuit offre gagner chance bonus dettes immédiat garanti",
        compte="compte passe vérifier sécurité suspendu banque connexion urgent client accès cliquez paiement "
        "facture confirmer",
    ),
    "es": _topics(
        pastillas="pastillas farmacia receta barato médico adelgazar descuento pedido salud garantizado envío natural "
        "efecto tabletas",
        dinero="dinero ganancia crédito ingresos rico millón gratis oferta ganar oportunidad bono deudas inmediato "
        "garantizado",
        cuenta="cuenta contraseña verificar seguridad suspendida banco acceso urgente cliente clic pago factura "
        "confirmar actualizar",
    ),
    "ko": _topics(
        약="비아그라 약국 처방 할인 주문 건강 다이어트 효과 보장 무료배송 천연 정품 특가 상담",
        돈="대출 돈 수익 무료 당첨 보너스 기회 부자 투자 즉시 신용 이자 카지노 보장",
        계정="계정 비밀번호 확인 보안 정지 은행 로그인 긴급 고객 접속 클릭 결제 청구서 갱신",
    ),
}

GREETINGS = {
    "en": ("Hi", "Hello", "Dear", "Good morning"),
    "de": ("Hallo", "Liebe", "Guten Tag", "Moin"),
    "fr": ("Bonjour", "Salut", "Chère", "Bonsoir"),
    "es": ("Hola", "Estimada", "Buenos días", "Querida"),
    "ko": ("안녕하세요", "안녕", "존경하는", "반갑습니다"),
}
CLOSINGS = {
    "en": ("Best regards", "Cheers", "Thanks", "See you"),
    "de": ("Viele Grüße", "Bis bald", "Danke", "Mit freundlichen Grüßen"),
    "fr": ("Cordialement", "À bientôt", "Merci", "Bises"),
    "es": ("Saludos", "Hasta pronto", "Gracias", "Un abrazo"),
    "ko": ("감사합니다", "안녕히 계세요", "고맙습니다", "그럼 이만"),
}
CALLS = {
    "en": ("Click here now", "Order today", "Act now", "Visit us", "Read more"),
    "de": ("Jetzt hier klicken", "Heute bestellen", "Schnell handeln", "Besuchen Sie uns", "Mehr lesen"),
    "fr": ("Cliquez ici", "Commandez aujourd'hui", "Agissez vite", "Visitez-nous", "Lire la suite"),
    "es": ("Haga clic aquí", "Pida hoy", "Actúe ahora", "Visítenos", "Leer más"),
    "ko": ("여기를 클릭하세요", "오늘 주문하세요", "지금 바로", "방문하세요", "더 읽기"),
}
NEWSLETTER = {
    "en": "You receive this newsletter because you subscribed. To unsubscribe follow the link",
    "de": "Sie erhalten diesen Newsletter, weil Sie ihn bestellt haben. Zum Abbestellen folgen Sie dem Link",
    "fr": "Vous recevez cette lettre car vous êtes abonné. Pour vous désabonner suivez le lien",
    "es": "Recibe este boletín porque se ha suscrito. Para darse de baja siga el enlace",
    "ko": "구독하신 소식지입니다. 수신을 원하지 않으시면 링크를 눌러 주세요",
}
NAMES = _list(
    "Ada Bruno Carla Dimitri Elena Farid Greta Hiro Ines Jonas Kira Luca Mina Nils Olga Pablo Quinn Rosa Sven Tara "
    "Umar Vera Wanda Xenia Yara Zeno"
)
