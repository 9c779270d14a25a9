//! What a shell runs for completion: the commands and options, as they are made from the command line, and names, which it asks
//! this program for.

use clap::Command;
use clap_complete::Shell;

/// In bash words are parted at `=` and `:`, too; the program knows the first, and gives no names with the latter.
const BASH: &str = r#"
_tidemill_names() {
    local name
    COMPREPLY=()
    while IFS= read -r name; do
        COMPREPLY+=("$name")
    done < <("${COMP_WORDS[0]}" complete-names -- "${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null </dev/null)
    if ((${#COMPREPLY[@]} == 0)); then
        _tidemill "$@"
    elif [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]]; then
        compopt -o nospace 2>/dev/null
    fi
}

complete -F _tidemill_names -o bashdefault -o default tidemill
"#;

const ZSH: &str = r#"
_tidemill_names() {
    local -a names
    names=("${(@f)$(command $words[1] complete-names -- "${(@)words[1,CURRENT]}" 2>/dev/null </dev/null)}")
    if [[ -n $names[1] ]]; then
        compadd -- $names
    else
        _tidemill "$@"
    fi
}

compdef _tidemill_names tidemill
"#;

const FISH: &str = r#"
complete -c tidemill -a '(command tidemill complete-names -- (commandline -opc) (commandline -ct) 2>/dev/null </dev/null)'
"#;

/// The script of a shell. Shells of which nobody asked for more complete commands and options alone.
pub fn script(shell: Shell, mut program: Command) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, "tidemill", &mut script);
    let names = match shell {
        Shell::Bash => BASH,
        Shell::Zsh => ZSH,
        Shell::Fish => FISH,
        _ => "",
    };
    script.extend_from_slice(names.as_bytes());
    script
}
