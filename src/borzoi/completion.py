"""`borzoi completion SHELL`: commands and their verbs, completed by the shell alone.

The script holds the words. Nothing of borzoi runs when Tab is pressed, so it takes no time, however
busy the machine is. It is as old as the moment when it was printed; options are not in it.
"""

from typing import Any, Final

import click

from borzoi.terminal import say

BASH: Final = """\
_borzoi() {{
    local cur="${{COMP_WORDS[COMP_CWORD]}}" words="" word verb="" at
    for ((at = 1; at < COMP_CWORD; at++)); do
        word="${{COMP_WORDS[at]}}"
        case "$word" in
{cases}
        esac
    done
    [[ -z $verb ]] && words="{commands}"
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o default -F _borzoi borzoi ./borzoi
"""
BASH_CASE: Final = '            {name}) [[ -z $verb ]] && verb="{name}" && words="{verbs}" ;;'
FISH: Final = "complete -c borzoi -f -n '__fish_use_subcommand' -a '{commands}'"
FISH_CASE: Final = "complete -c borzoi -f -n '__fish_seen_subcommand_from {name}' -a '{verbs}'"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what completes commands: `source <(borzoi completion bash)`, or put it into a file."""
    words = _words(click.get_current_context().find_root().command)
    commands = " ".join(words)
    if shell == "fish":
        lines = [FISH.format(commands=commands)]
        lines += [
            FISH_CASE.format(name=name, verbs=" ".join(verbs))
            for name, verbs in words.items()
            if verbs
        ]
    else:
        cases = [
            BASH_CASE.format(name=name, verbs=" ".join(verbs)) for name, verbs in words.items()
        ]
        script = BASH.format(cases="\n".join(cases), commands=commands)
        lines = ["autoload -U +X bashcompinit && bashcompinit"] if shell == "zsh" else []
        lines += script.splitlines()
    for line in lines:
        say(line)


def _words(root: Any) -> dict[str, list[str]]:
    """The verbs of every command, without importing what is heavy."""
    found: dict[str, list[str]] = {}
    context = click.Context(root)
    for name in root.list_commands(context):
        command = None if name in ("bench", "pipeline", "test") else root.get_command(context, name)
        verbs = command.list_commands(context) if isinstance(command, click.Group) else []
        found[name] = verbs
    return found
