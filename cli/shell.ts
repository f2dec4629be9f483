import type { Command, Option } from 'commander'
import type { World } from './world.ts'

/** The scripts get candidates from `kubectl-vm` itself, so that none of them lists the commands. */
const scripts: { readonly [shell: string]: string } = {
  bash: `# Completion of kubectl-vm for bash. kubectl-vm completion bash > /etc/bash_completion.d/kubectl-vm, or source it in ~/.bashrc
_kubectl_vm() {
  local word words=()
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD}"; do
    # Where = breaks words, as by default, --flag=value comes as three.
    if [[ \${#words[@]} -gt 0 && ( $word == = || \${words[-1]} == -*= ) ]]; then words[-1]+=$word; else words+=("$word"); fi
  done
  mapfile -t COMPREPLY < <(compgen -W "$(kubectl-vm __complete "\${words[@]}" 2>/dev/null)" -- "\${words[-1]}")
  if [[ $COMP_WORDBREAKS == *=* ]]; then COMPREPLY=("\${COMPREPLY[@]#-*=}"); fi
}
complete -o default -F _kubectl_vm kubectl-vm
`,
  zsh: `#compdef kubectl-vm
# Completion of kubectl-vm for zsh. kubectl-vm completion zsh > "\${fpath[1]}/_kubectl-vm"
_kubectl-vm() {
  local -a found
  found=("\${(@f)$(kubectl-vm __complete "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "\${found[*]}" ]]; then compadd -- "\${found[@]}"; else compset -P '-*='; _files; fi
}
# Called by its name in fpath, this file is the function itself.
if [[ "\${funcstack[1]}" == _kubectl-vm ]]; then _kubectl-vm; else compdef _kubectl-vm kubectl-vm; fi
`,
  fish: `# Completion of kubectl-vm for fish. kubectl-vm completion fish > ~/.config/fish/completions/kubectl-vm.fish
function __kubectl_vm
  set -l words (commandline -opc)[2..-1] (commandline -ct)
  set -l found (kubectl-vm __complete $words 2>/dev/null)
  if test (count $found) -gt 0
    printf '%s\\n' $found
  else
    set -l flag (string match --regex -- '^-[^=]*=' (commandline -ct))
    for path in (__fish_complete_path (string replace --regex -- '^-[^=]*=' '' (commandline -ct)))
      printf '%s\\n' "$flag$path"
    end
  end
end
complete -c kubectl-vm -f -a '(__kubectl_vm)'
`,
  kubectl: `#!/bin/sh
# kubectl runs this file, on the PATH as kubectl_complete-vm, to complete \`kubectl vm\`. Of --flag=value it expects the value alone.
kubectl-vm __complete "$@" | sed 's/^-[^=]*=//'
echo :0
`,
}

/** @param shell bash, zsh, fish, or kubectl for the file that kubectl runs */
export function shellScript(shell: string, plugin: World['plugin']): string {
  const script = scripts[shell]
  if (script === undefined) throw new Error(`no script for ${shell}`)
  return script.replaceAll(/(kubectl[-_ ]|complete-)vm\b/g, `$1${plugin}`)
}

/**
 * Candidates for the last word: commands, flags, values of a flag. None if a file is expected, because shells complete
 * files.
 */
export function candidates(program: Command, words: readonly string[]): readonly string[] {
  const current = words.at(-1) ?? ''
  const [name, ...before] = words.slice(0, -1)
  if (name === undefined) return starting(current, [...visible(program), 'help'])
  if (name === 'help') return starting(current, visible(program))
  const command = program.commands.find((one) => one.name() === name)
  if (command === undefined) return []
  const valuesOf = (flag: string): readonly string[] | undefined => {
    const option = command.options.find(({ short, long }) => flag === short || flag === long)
    return option?.required === true ? (option.argChoices ?? []) : undefined
  }
  const values = valuesOf(before.at(-1) ?? '')
  if (values !== undefined) return starting(current, values)
  const [flag = '', value] = current.split('=')
  if (value !== undefined) return starting(current, valuesOf(flag)?.map((one) => `${flag}=${one}`) ?? [])
  if (current.startsWith('-')) return starting(current, flagsOf(command))
  const [argument] = command.registeredArguments
  return starting(current, argument?.argChoices ?? [])
}

const visible = (program: Command): string[] =>
  program.commands.map((command) => command.name()).filter((name) => !name.startsWith('_'))

const flagsOf = ({ options }: Command): string[] => [
  ...options.map((option: Option) => option.long ?? option.flags),
  '--help',
]

const starting = (current: string, words: readonly string[]): string[] =>
  words.filter((word) => word.startsWith(current))
