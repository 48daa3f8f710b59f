# Tab completion of spinup for bash, written by `spinup completion bash`.
_spinup() {
    # Avoid COMP_WORDS, because bash splits it at every colon.
    local line=${COMP_LINE:0:COMP_POINT} cur flag='' word='' words=() list=''
    cur=${line##*[[:space:]]}
    read -ra words <<< "${line%"$cur"}"
    COMPREPLY=()
    if (( ${#words[@]} < 2 )); then
        COMPREPLY=($(compgen -W "@COMMANDS@" -- "$cur"))
        return
    fi
    for word in "${words[@]:2}"; do
        [[ $word == --* ]] && flag=${word%%\[*}
    done
    if [[ $cur == --*=* ]]; then
        flag=${cur%%=*} cur=${cur#*=}
    elif [[ $cur == -* ]]; then
        case ${words[1]} in
@FLAGS@
        esac
        COMPREPLY=($(compgen -W "$list" -- "$cur"))
        [[ ${COMPREPLY[0]-} == *: ]] && compopt -o nospace 2>/dev/null
        _spinup_after_colon "$cur"
        return
    fi
    case $flag in
@VALUES@
        @PATHS@)
            _spinup_paths "$cur"
            return ;;
    esac
    case ${words[1]} in
        completion) list="bash zsh" ;;
        exercise) list="@EXERCISES@" ;;
        @RUNS@)
            if [[ -z $list ]]; then
                _spinup_paths "$cur"
                return
            fi ;;
    esac
    COMPREPLY=($(compgen -W "$list" -- "$cur"))
    _spinup_after_colon "$cur"
}
_spinup_paths() {
    local IFS=$'\n'  # names may contain spaces
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen -f -- "$1"))
}
# Bash replaces only the text after the last colon, so keep only that part of each reply.
_spinup_after_colon() {
    if [[ $1 == *:* && $COMP_WORDBREAKS == *:* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${1%"${1##*:}"}"}")
    fi
}
complete -F _spinup spinup
