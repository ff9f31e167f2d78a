"""The minute that the demo plays: who writes what to whom and when, and what goes wrong meanwhile (pure).

People and clinics are made up. Times are seconds from the start and scale with the minute's length, as the
windows do; the same length gives the same scenario.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from ops.demo.steps import (
    BreakOff,
    Chat,
    Connect,
    Line,
    Merge,
    Noise,
    Order,
    OutOfContract,
    Read,
    Repeat,
    Say,
    Step,
    TakeOver,
    Treat,
)

FULL_S: Final = 60.0
LEAST_S: Final = 10.0
LEAST_WINDOW_MS: Final = 300
LEAST_TURN_S: Final = 0.2
ROOMY_S: Final = 50.0
"""What can't be squeezed is played in a minute that is at least so long: the wait after a second failure is
20 s, a number that isn't connected is looked at again after 30 s."""

AURORA: Final = "Clínica Aurora"
MOVIMENTO: Final = "Estúdio Movimento"


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything that is played, in the order of time."""

    seconds: float
    scale: float
    """1 = the full minute."""
    default_window_ms: int
    """The window of numbers without an agent that can answer."""
    turn_s: float
    """How long the engine takes for a turn."""
    spacing_ms: int
    """Least time between two turns of one person."""
    lines: tuple[Line, ...]
    chats: tuple[Chat, ...]
    steps: tuple[Step, ...]

    def line_of(self, chat: Chat) -> Line:
        """The number that a chat goes to."""
        return next(line for line in self.lines if line.key == chat.line)

    @property
    def messages(self) -> int:
        """How many events are written: one a message, and those out of contract."""
        return sum(isinstance(step, (Say, BreakOff, OutOfContract)) for step in self.steps)


def scenario(seconds: float = FULL_S) -> Scenario:
    """The minute, squeezed or stretched to `seconds` (at least 10)."""
    scale = max(seconds, LEAST_S) / FULL_S
    lines = (
        Line("reception", AURORA, "recepção", _window(4_000, scale)),
        Line("billing", AURORA, "financeiro", _window(6_000, scale)),
        Line("beauty", AURORA, "estética", _window(3_000, scale), agent="paused"),
        Line("vaccines", AURORA, "vacinas", _window(3_000, scale)),
        Line("studio", MOVIMENTO, "recepção", _window(3_000, scale), organization="suspended"),
    )
    roomy = FULL_S * scale >= ROOMY_S
    steps = sorted([*_minute(), *_engine_troubles(roomy)], key=lambda step: step.at_s)
    return Scenario(
        seconds=FULL_S * scale,
        scale=scale,
        default_window_ms=_window(3_000, scale),
        turn_s=max(1.2 * scale, LEAST_TURN_S),
        spacing_ms=int(6_000 * scale),
        lines=lines,
        chats=tuple(_CHATS.values()),
        steps=tuple(step.scaled(scale) for step in steps),
    )


def _window(length_ms: int, scale: float) -> int:
    return max(int(length_ms * scale), LEAST_WINDOW_MS)


_CHATS: Final = {
    chat.key: chat
    for chat in (
        Chat("celia", "Dona Célia", "mãe do Theo"),
        Chat("anselmo", "Seu Anselmo", "fisioterapia"),
        Chat("bruna", "Bruna", "gestante"),
        Chat("tarcisio", "Tarcísio", "pai da Alice"),
        Chat("group", "Família da vó Nair", "grupo", group=True),
        Chat("livia", "Lívia", "estética", line="beauty"),
        Chat("gilson", "Gilson", "aluno", line="studio"),
        Chat("marlene", "Dona Marlene", "com a Patrícia", owner="user"),
        Chat("site", "Formulário do site", "integração"),
        Chat("rafael", "Rafael", "primeira consulta"),
        Chat("rafael_billing", "Rafael", "financeiro", line="billing", same_contact_as="rafael"),
        Chat("yara", "Yara", "nutrição"),
        Chat("nilton", "Nilton", "cadastro duplicado"),
        Chat("nilton_kept", "Nilton S.", "cadastro certo"),
        Chat("sandra", "Sandra", "pós-operatório"),
        Chat("iara", "Iara", "adolescente"),
        Chat("otavio", "Otávio", "convênio"),
        Chat("jandira", "Jandira", "vacina do Davi", line="vaccines"),
        Chat("dalva", "Dona Dalva", "retorno"),
        Chat("vanda", "Vanda", "atendimento encerrado"),
        Chat("kaua", "Kauã", "boleto"),
    )
}

Kind = Literal["text", "image", "audio"]


def _burst(chat: str, at_s: float, *texts: str, every_s: float = 0.7) -> Iterator[Say]:
    """Bubbles one after the other; the first one can be named by `chat@time`."""
    for number, text in enumerate(texts):
        yield Say(at_s + number * every_s, _CHATS[chat], text, label=f"{chat}@{at_s:g}+{number}")


def _media(chat: str, at_s: float, kind: Kind, text: str, *, read_after_s: float) -> Iterator[Step]:
    """A photo or audio, and its reading by the CRM a while later."""
    label = f"{chat}@{at_s:g}"
    yield Say(at_s, _CHATS[chat], text, kind=kind, label=label)
    yield Read(at_s + read_after_s, _CHATS[chat], of=label)


def _minute() -> Iterable[Step]:
    yield from _burst(
        "celia",
        1.0,
        "Oi, bom dia",
        "o Theo acordou com febre",
        "38,7",
        "consegue encaixe hoje?",
        "de preferência à tarde",
    )
    yield from _burst("anselmo", 2.2, "bom dia", "preciso remarcar", "pode ser quinta 15h?")
    # the publisher sends a record again after a crash: within its window, and long after
    yield Repeat(4.4, _CHATS["celia"], of="celia@1+2")
    yield Repeat(30.0, _CHATS["anselmo"], of="anselmo@2.2+0")
    yield from _media("bruna", 6.0, "image", "exame.jpg", read_after_s=12.0)
    yield from _burst("bruna", 6.8, "é esse o exame que a doutora pediu?")
    yield from _burst("bruna", 12.5, "ele ficou pronto ontem")
    yield from _burst("group", 8.5, "quem leva a vó amanhã?", "eu levo", "a consulta é 9h")
    yield from _burst("livia", 10.5, "oi! ainda tem a promoção de limpeza de pele?", "queria pra sábado")
    yield from _burst("marlene", 12.0, "a Patrícia pode me ligar?")
    yield from _media("tarcisio", 14.0, "audio", "áudio 0:23", read_after_s=7.0)
    yield from _burst("gilson", 15.5, "tem aula hoje?", "choveu muito aqui")
    yield from _burst(
        "iara",
        17.0,
        "oii",
        "td bem?",
        "eh a iara",
        "filha da marta",
        "vcs atendem",
        "hj?",
        "kkkk",
        "to com dor de ouvido",
        every_s=0.35,
    )
    yield OutOfContract(20.0, _CHATS["site"], "Quero agendar uma avaliação")
    yield from _burst("rafael", 21.5, "quanto tá a primeira consulta?", "aceita convênio?", every_s=1.1)
    yield from _burst("rafael_billing", 22.0, "segue o comprovante", "é do mês passado", every_s=1.3)
    yield Noise(24.0, "oi, isso aqui não é JSON".encode())
    yield from _burst("yara", 25.0, "oi", "tem horário no sábado?")
    yield BreakOff(25.0, _CHATS["yara"], "??", after="yara@25+0")
    yield from _burst("nilton", 28.0, "bom dia, é o Nilton", "mudei de número")
    yield Merge(29.2, _CHATS["nilton"], into=_CHATS["nilton_kept"])
    yield from _burst("sandra", 31.0, "o curativo soltou", "quero falar com uma pessoa")
    yield TakeOver(33.5, _CHATS["sandra"])
    yield from _burst("celia", 33.0, "confirmado então?", "obrigada!!", "vocês são uns anjos")
    yield from _burst("otavio", 35.0, "meu convênio mudou", "agora é o da empresa", "precisa da carteirinha?")
    yield from _media("otavio", 37.0, "image", "carteirinha.jpg", read_after_s=6.0)
    yield from _burst("anselmo", 38.0, "desculpa", "quinta não dá", "sexta de manhã?", every_s=0.5)
    yield from _burst("iara", 41.0, "minha mãe disse", "q pode ser 18h", "blz?", every_s=0.4)
    yield from _burst("rafael", 43.0, "fechado", "pode marcar")
    yield from _burst("tarcisio", 44.5, "a Alice melhorou", "obrigado!")
    yield from _burst("bruna", 46.0, "vi o resultado", "tá tudo certo né?", "😊")
    yield from _burst("celia", 48.5, "chegamos", "estamos na sala de espera")


def _engine_troubles(roomy: bool) -> Iterable[Step]:
    """What the agent engine does otherwise than answer at once; all else of `_minute` it answers."""
    chat = _CHATS
    # overloaded: it says when to come back, and is right the second time, or only the third
    failures, words = (2, "twice") if roomy else (1, "once")
    told = f"the engine will be overloaded {words} (503, Retry-After)"
    yield Treat(1.0, chat["anselmo"], told, "fail", times=failures, wait_s=3.0, reason="model overloaded")
    yield Treat(36.0, chat["anselmo"], "the engine is well again")
    # a number without a connection: its turns wait, no attempt is spent
    if roomy:
        yield Connect(5.0, "vaccines", False, "the number of Vacinas loses its connection")
        yield Connect(24.0, "vaccines", True, "the number of Vacinas is connected again")
    yield from _burst("jandira", 6.2, "o Davi pode tomar a vacina hoje?", "ele tá resfriado")
    # a turn that waits for its retry is covered by a newer one
    told = "the engine will be overloaded once (503, Retry-After)"
    yield Treat(8.5, chat["dalva"], told, "fail", wait_s=20.0, reason="model overloaded")
    yield from _burst("dalva", 9.6, "preciso remarcar o retorno")
    yield Treat(16.5, chat["dalva"], "the engine is well again")
    yield from _burst("dalva", 18.5, "pode ser terça?", "de manhã")
    # one that it refuses for good, without an alarm; one that it can't do
    yield Treat(10.0, chat["vanda"], "the engine will say: closed (409)", "conflict", reason="closed")
    yield from _burst("vanda", 11.2, "oi, ainda sobre aquilo")
    yield Treat(
        18.0, chat["kaua"], "the engine can't do his turns (422)", "fail", status=422, reason="no tool"
    )
    yield from _burst("kaua", 19.0, "manda o boleto?", "o de outubro")
    # a long turn: what comes meanwhile is answered together
    yield Treat(16.5, chat["iara"], "the engine will take long", takes_s=13.0)
    yield from _burst("iara", 22.2, "oi??")
    yield from _burst("iara", 28.2, "já tomei dipirona", "pode?")
    yield Treat(32.5, chat["iara"], "the engine is quick again")
    # a person wants to read a turn's messages first
    yield Order(45.0, chat["tarcisio"], "hold", of="tarcisio@44.5+0", told="a person holds the turn")
    yield Order(52.5, chat["tarcisio"], "release", of="tarcisio@44.5+0", told="the person lets it go on")
