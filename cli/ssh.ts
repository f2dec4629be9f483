import { Usage } from './failure.ts'
import { parsePort } from './vm-session.ts'
import type { Cluster, World } from './world.ts'

export interface SshFlags {
  readonly namespace?: string
  readonly kubeconfig?: string
  readonly context?: string
  readonly port: string
  readonly identityFile?: string
  readonly sshOption?: readonly string[]
}

type SshWorld = Pick<World, 'spawn' | 'self'>

/**
 * The host that ssh looks for in the user's configuration. Another user chooses the name of the VM, which could be that
 * of a host to which the user's configuration forwards an agent or ports, or match a pattern for such hosts.
 */
const host = 'kubectl-vm'

/** `kubectl vm ssh`: runs the user's ssh, whose connection is that of `port-forward --stdio`. */
export function ssh(words: readonly string[], flags: SshFlags, cluster: Cluster, world: SshWorld): Promise<number> {
  const [destination = '', ...command] = words
  const { user, vm } = parseDestination(destination)
  return world.spawn('ssh', [...optionsFor(vm, flags, cluster, world), '--', user + host, ...command])
}

/** `kubectl vm scp`, in the same way. */
export function scp(
  words: readonly string[],
  flags: SshFlags & { readonly recursive?: true },
  cluster: Cluster,
  world: SshWorld,
): Promise<number> {
  const remotes = words.map(parseRemote)
  const [vm, another] = new Set(remotes.flatMap((remote) => remote?.vm ?? []))
  if (vm === undefined) throw new Usage('one of the paths must be on a VM: [USER@]VM:PATH')
  if (another !== undefined) throw new Usage(`the paths are on two VMs, ${vm} and ${another}; copy in two steps`)
  const recursive = flags.recursive === true ? ['-r'] : []
  const paths = words.map((word, index) => {
    const remote = remotes[index]
    return remote === undefined ? word : `${remote.user}${host}:${remote.path}`
  })
  return world.spawn('scp', [...optionsFor(vm, flags, cluster, world), ...recursive, '--', ...paths])
}

/** Of `[USER@]VM`, `USER@` or nothing, and `VM`. */
function parseDestination(destination: string): { user: string; vm: string } {
  const end = destination.lastIndexOf('@') + 1
  const vm = destination.slice(end)
  // A name of Kubernetes has no character that ssh or a shell interprets.
  if (/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/.test(vm)) return { user: destination.slice(0, end), vm }
  throw new Usage(`"${vm}" is not the name of a VM; the destination must be [USER@]VM`)
}

/** Of `[USER@]VM:PATH`; undefined for a local path, which has no colon before its first slash. */
function parseRemote(word: string): { user: string; vm: string; path: string } | undefined {
  const [, destination, path = ''] = /^([^/:]+):(.*)$/s.exec(word) ?? []
  return destination === undefined ? undefined : { ...parseDestination(destination), path }
}

function optionsFor(vm: string, flags: SshFlags, cluster: Cluster, { self }: SshWorld): string[] {
  const namespace = flags.namespace ?? cluster.namespace ?? 'default'
  const port = String(parsePort(flags.port))
  const given = (flag: string, value: string | undefined) => (value === undefined ? [] : [flag, value])
  const proxy = [
    ...self,
    'port-forward',
    '--stdio',
    '--namespace',
    namespace,
    ...given('--kubeconfig', flags.kubeconfig),
    ...given('--context', flags.context),
    vm,
    port,
  ]
  const options = [
    `ProxyCommand=${proxy.map(quoted).join(' ')}`,
    // The keys of hosts are stored by this name, not by that of a host of the user's network.
    `HostKeyAlias=${vm}.${namespace}.${clusterName(cluster)}`,
    ...(flags.sshOption ?? []),
    // A connection that the user's configuration shares by the name of a host could be one to another VM of this name.
    'ControlPath=none',
  ]
  return [...options.flatMap((option) => ['-o', option]), ...given('-i', flags.identityFile)]
}

/**
 * VMs of different clusters can have the same name. Of the address, only what `known_hosts` does not interpret. Some
 * proxies serve several clusters at one host, so a path counts as well, and different paths give different names.
 */
function clusterName({ server }: Cluster): string {
  const { host, pathname } = new URL(server)
  const path = pathname.replace(/\/+$/, '').replaceAll(/[^a-z0-9.-]/g, escaped)
  return host.replaceAll(/[^a-z0-9.]+/g, '-') + path
}

const escaped = (character: string): string => (character === '/' ? '_' : `+${character.charCodeAt(0).toString(16)}`)

/** A word for the shell that runs a ProxyCommand, in which ssh replaces `%`. */
const quoted = (word: string): string => `'${word.replaceAll("'", String.raw`'\''`).replaceAll('%', '%%')}'`
