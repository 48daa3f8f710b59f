#compdef spinup
# Tab completion of spinup for zsh, written by `spinup completion zsh`.
_spinup() {
    local cur=${words[CURRENT]} flag='' word=''
    if (( CURRENT == 2 )); then
        compadd -- @COMMANDS@
        return
    fi
    for word in "${(@)words[3,CURRENT-1]}"; do
        [[ $word == --* ]] && flag=${word%%\[*}
    done
    if [[ $cur == -* ]]; then
        case ${words[2]} in
@FLAGS@
        esac
        return
    fi
    case $flag in
@VALUES@
        @PATHS@) _files; return ;;
    esac
    case ${words[2]} in
        completion) compadd -- bash zsh ;;
        exercise) compadd -- @EXERCISES@ ;;
        @RUNS@) _files ;;
    esac
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _spinup "$@"
else
    compdef _spinup spinup
fi
