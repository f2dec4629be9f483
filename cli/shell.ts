import type { Command, Option } from 'commander'
import { NameArgument, type NamedKind } from './name-argument.ts'
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
  # Not by compgen -W, which expands candidates as a shell does: it would run a command in one.
  mapfile -t COMPREPLY < <(kubectl-vm __complete "\${words[@]}" 2>/dev/null)
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

/** The values of flags, by their long names without dashes. */
type Values = { readonly [flag: string]: string }

/** The names of objects of the cluster. */
export type NamesOf = (kinds: readonly NamedKind[], flags: Values) => Promise<readonly string[]>

/**
 * Candidates for the last word: commands, flags, values of a flag, names of VMs. None if a file is expected, because
 * shells complete files.
 */
export async function candidates(
  program: Command,
  words: readonly string[],
  namesOf: NamesOf,
): Promise<readonly string[]> {
  const current = words.at(-1) ?? ''
  const [name, ...before] = words.slice(0, -1)
  if (name === undefined) return starting(current, [...visible(program), 'help'])
  if (name === 'help') return starting(current, visible(program))
  const command = program.commands.find((one) => one.name() === name)
  if (command === undefined) return []
  const given = readWords(command, before)
  if (given.open !== undefined) return starting(current, given.open.argChoices ?? [])
  const [flag = '', value] = current.split('=')
  if (value !== undefined && flag.startsWith('-')) {
    return starting(current, optionNamed(command, flag)?.argChoices?.map((one) => `${flag}=${one}`) ?? [])
  }
  if (current.startsWith('-')) return starting(current, flagsOf(command))
  const argument = command.registeredArguments[given.arguments]
  if (!(argument instanceof NameArgument)) return starting(current, argument?.argChoices ?? [])
  // As in `ssh USER@VM`.
  const user = /^.*@/.exec(current)?.[0] ?? ''
  const names = await namesOf(argument.kinds, given.values).catch(() => [])
  return starting(
    current,
    names.map((one) => `${user}${one}`),
  )
}

const optionNamed = ({ options }: Command, flag: string): Option | undefined =>
  options.find(({ short, long, required }) => required && (flag === short || flag === long))

/** The arguments and flags before the last word, and the flag whose value the last word is. */
function readWords(command: Command, words: readonly string[]) {
  const values: { [flag: string]: string } = {}
  let count = 0
  let open: Option | undefined
  for (const word of words) {
    const [flag = '', value] = word.split('=')
    if (open !== undefined) {
      values[open.attributeName()] = word
      open = undefined
    } else if (!word.startsWith('-')) {
      count++
    } else {
      const option = optionNamed(command, flag)
      if (value === undefined) open = option
      else if (option !== undefined) values[option.attributeName()] = value
    }
  }
  return { arguments: count, values, open }
}

const visible = (program: Command): string[] =>
  program.commands.map((command) => command.name()).filter((name) => !name.startsWith('_'))

const flagsOf = ({ options }: Command): string[] => [
  ...options.map((option: Option) => option.long ?? option.flags),
  '--help',
]

const starting = (current: string, words: readonly string[]): string[] =>
  words.filter((word) => word.startsWith(current))
