"""The sandbox that a site's templates run in: what they may do, and how much of it.

Jinja's own (https://jinja.palletsprojects.com/en/stable/sandbox/) keeps templates from Python's
insides; it knows no end of a loop. Here loops and calls are counted, so that the same page always
comes to the same end, however busy the machine is. It guards against slips, not against whoever
may write the site's files: a template can still ask for much memory.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

import jinja2
from jinja2 import meta, nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

# Rounds of loops and calls, and characters, of one page.
MOST_STEPS = 200_000
MOST_CHARACTERS = 8 << 20
# What "*" may make of a text or a list.
MOST_REPEATED = 100_000

_Source = tuple[str, str | None, Callable[[], bool] | None]


class Exceeded(RuntimeError):
    """A template that does not come to an end within its bounds."""


class _Steps:
    def __init__(self) -> None:
        self.left = MOST_STEPS

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Exceeded(f"it takes more than {MOST_STEPS:,} rounds of loops and calls")


# Of the page that this thread makes.
_steps: ContextVar[_Steps] = ContextVar("steps")


def own_loader() -> jinja2.PackageLoader:
    """Where our templates are."""
    return jinja2.PackageLoader("firstfault.templates", ".")


class Sandbox(ImmutableSandboxedEnvironment):
    """An environment of a site's templates, ``texts`` by name, before ours."""

    intercepted_binops = frozenset(("*", "**"))

    def __init__(self, folder: str, texts: Mapping[str, str]) -> None:
        self._texts = dict(texts)
        self._files = {f"{folder}/{name}": name for name in texts}
        self._changed: dict[str, bool] = {}

        def load(name: str) -> _Source | None:
            text = self._texts.get(name)
            return None if text is None else (text, f"{folder}/{name}", lambda: True)

        super().__init__(
            loader=jinja2.ChoiceLoader([jinja2.FunctionLoader(load), own_loader()]),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.filters["_counted"] = _counted

    def render(self, name: str, context: Mapping[str, object]) -> str:
        """The page ``name``. Raises `Exceeded`, and whatever the template raises."""
        _steps.set(_Steps())
        parts: list[str] = []
        size = 0
        for part in self.get_template(name).generate(context):
            parts.append(part)
            size += len(part)
            if size > MOST_CHARACTERS:
                raise Exceeded(f"it makes more than {MOST_CHARACTERS:,} characters")
        return "".join(parts)

    def changes(self, name: str) -> bool:
        """True where ``name``, or what it includes, is a template of the site's."""
        if name not in self._changed:
            self._changed[name] = self._is_changed(name)
        return self._changed[name]

    def _is_changed(self, name: str) -> bool:
        waiting, seen = [name], set[str]()
        while waiting:
            each = waiting.pop()
            if each in self._texts:
                return True
            if each not in seen:
                seen.add(each)
                waiting += self._referenced(each)
        return False

    def faults(self) -> Iterator[str]:
        """What is wrong with the site's templates before any page is made."""
        ours = own_loader().list_templates()
        used = {each for name in self._texts for each in self._referenced(name)}
        for name in sorted(self._texts):
            try:
                self.get_template(name)
            except Exception as error:  # noqa: BLE001 - boundary: the parser meets anything
                yield f"{name}: {self.place(name, error)}"
            if name not in ours and name not in used:
                known = ", ".join(each for each in sorted(ours) if not each.startswith("__"))
                yield f"{name}: no page is made with it. Ours are {known}."

    def place(self, name: str, error: Exception) -> str:
        """The failure of the page ``name`` in words: where in which file, and what."""
        said = f"{type(error).__name__}: {error}"
        if isinstance(error, jinja2.TemplateSyntaxError):
            return f"{error.name or name} line {error.lineno}: {error.message}"
        if isinstance(error, jinja2.TemplateNotFound):
            return f"{name}: there is no template {error.name!r}"
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            if frame.filename in self._files:
                return f"{self._files[frame.filename]} line {frame.lineno}: {said}"
        return f"{name}: {said}"

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Calls, as Jinja's sandbox does, and counts: a macro may call itself."""
        _steps.get().spend()
        return super().call(context, obj, *args, **kwargs)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Products, not of what would fill the memory; powers not at all."""
        if operator == "**":
            raise SecurityError("** is not available")
        for one, other in ((left, right), (right, left)):
            is_repeated = hasattr(one, "__len__") and isinstance(other, int)
            if is_repeated and len(one) * other > MOST_REPEATED:
                raise SecurityError(f"* makes more than {MOST_REPEATED:,} of it")
        return super().call_binop(context, operator, left, right)

    def _referenced(self, name: str) -> list[str]:
        assert self.loader is not None
        try:
            tree = self.parse(self.loader.get_source(self, name)[0], name)
        except jinja2.TemplateError:
            return []
        return [each for each in meta.find_referenced_templates(tree) if each is not None]

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        if name in self._texts:
            _refuse_unescaped(tree, name, filename)
        for loop in list(tree.find_all(nodes.For)):
            counted = nodes.Filter(loop.iter, "_counted", [], [], None, None, lineno=loop.lineno)
            counted.set_environment(self)
            loop.iter = counted
        return tree


def _counted(items: Iterable[object]) -> Iterator[object]:
    steps = _steps.get()
    for item in items:
        steps.spend()
        yield item


# What a job printed is in every page: only escaped it is harmless.
def _refuse_unescaped(tree: nodes.Template, name: str | None, filename: str | None) -> None:
    for each in tree.find_all(nodes.Filter):
        if each.name == "safe":
            said = "|safe is not available: everything is escaped"
            raise jinja2.TemplateSyntaxError(said, each.lineno, name, filename)
    for block in tree.find_all((nodes.ScopedEvalContextModifier, nodes.EvalContextModifier)):
        said = "autoescape cannot be changed: everything is escaped"
        raise jinja2.TemplateSyntaxError(said, block.lineno, name, filename)
