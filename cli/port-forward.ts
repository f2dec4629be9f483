import { once } from 'node:events'
import type { Duplex } from 'node:stream'
import { ApiError, ApiUnreachable } from '../runtime/api-error.ts'
import type { Clock } from '../runtime/clock.ts'
import { clusterFailure } from './cluster.ts'
import { errorLine } from './error-line.ts'
import { Usage, exitCodes, type ExitCode } from './failure.ts'
import { cut, joinSession } from './join-session.ts'
import { hasGuest, parsePort, refused, sessionPath, vmRef, type VmRef } from './vm-session.ts'
import type { Cluster, ListenAddress, World } from './world.ts'

export interface PortForwardFlags {
  readonly namespace?: string
  readonly address: string
  readonly stdio?: true
}

export interface ScreenFlags {
  readonly namespace?: string
  readonly listen: string
}

export type ForwardWorld = Pick<World, 'out' | 'err' | 'stdio' | 'listen'> & { readonly clock: Clock }

/** More are refused by the server. */
const mostConnections = 64

/** A local address, and the subresource to which each of its connections is carried. */
interface Forward {
  readonly at: ListenAddress
  readonly subresource: string
  /** What is printed once it listens. */
  readonly text: (address: string) => string
}

/** `kubectl vm port-forward`: carries connections to local ports to ports of a VM, until it is ended. */
export async function forwardPorts(
  name: string,
  ports: readonly string[],
  flags: PortForwardFlags,
  cluster: Cluster,
  world: ForwardWorld,
): Promise<ExitCode> {
  const vm = vmRef(name, flags, cluster)
  if (flags.stdio === true) {
    const [port, ...more] = ports
    if (port === undefined || more.length > 0) throw new Usage('--stdio requires one port: that of the VM')
    return carryStdio(vm, `portforward/${parsePort(port)}`, cluster, world)
  }
  if (ports.length === 0) throw new Usage('a port is required, for example 8080:80')
  const forwards = ports.map((text) => {
    const { local, remote } = parsePorts(text)
    return {
      at: { host: flags.address, port: local },
      subresource: `portforward/${remote}`,
      text: (address: string) => `Forwarding from ${address} to port ${remote} of ${name}\n`,
    }
  })
  return serve(vm, forwards, cluster, world)
}

/** `kubectl vm vnc --listen`: carries connections of viewers to the screen of a VM, until it is ended. */
export async function serveScreen(
  name: string,
  flags: ScreenFlags,
  cluster: Cluster,
  world: ForwardWorld,
): Promise<ExitCode> {
  const at = parseListen(flags.listen)
  const who = 'path' in at ? 'you' : 'every user of this host'
  const text = (address: string) =>
    `The screen of ${name} is at ${address}. Connect a VNC viewer; ${who} can. Press ^C to end.\n`
  return serve(vmRef(name, flags, cluster), [{ at, subresource: 'attach/vnc', text }], cluster, world)
}

/** `LOCAL:REMOTE`, `:REMOTE` for any free local port, or one number for both. */
function parsePorts(text: string): { readonly local: number; readonly remote: number } {
  const [first = '', second, ...rest] = text.split(':')
  if (rest.length > 0) throw new Usage(`"${text}" is not LOCAL:REMOTE`)
  if (second === undefined) return { local: parsePort(first), remote: parsePort(first) }
  return { local: first === '' ? 0 : parsePort(first, 0), remote: parsePort(second) }
}

/** A port, `HOST:PORT`, or the path of a unix socket. */
function parseListen(text: string): ListenAddress {
  if (text.includes('/')) return { path: text }
  const [, host = '127.0.0.1', port = text] = /^\[?(.+?)\]?:(\d+)$/.exec(text) ?? []
  return { host, port: parsePort(port, 0) }
}

async function serve(
  vm: VmRef,
  forwards: readonly Forward[],
  cluster: Cluster,
  world: ForwardWorld,
): Promise<ExitCode> {
  const failed = Promise.withResolvers<never>()
  const listening: { close(): void }[] = []
  let open = 0
  const accept = async (subresource: string, local: Duplex) => {
    try {
      const { code, reason } = await join(vm, subresource, local, cluster, world)
      if (code !== 1000) world.err(errorLine(`a connection was lost: ${reason || `code ${code}`}`))
    } catch (error) {
      cut(local)
      if (error instanceof ApiError && [403, 404].includes(error.status.code)) return failed.reject(error)
      world.err(errorLine(messageOf(error, cluster)))
    }
  }
  try {
    if (!(await hasGuest(vm, cluster, world))) return exitCodes.refused
    for (const { at, subresource, text } of forwards) {
      const one = await world.listen(at, (local) => {
        if (open >= mostConnections) return cut(local)
        open++
        return void accept(subresource, local).finally(() => open--)
      })
      listening.push(one)
      world.out(text(one.address))
    }
    return await failed.promise
  } catch (error) {
    return await refused(error, vm, cluster, world)
  } finally {
    for (const one of listening) one.close()
  }
}

async function carryStdio(vm: VmRef, subresource: string, cluster: Cluster, world: ForwardWorld): Promise<ExitCode> {
  try {
    const local = await world.stdio()
    const { code, reason } = await join(vm, subresource, local, cluster, world)
    if (!local.writableFinished && !local.destroyed) await once(local, 'finish')
    local.destroy()
    if (code === 1000) return exitCodes.fine
    world.err(errorLine(`the connection to ${vm.name} was lost: ${reason || `code ${code}`}`))
    return exitCodes.refused
  } catch (error) {
    return refused(error, vm, cluster, world)
  }
}

const join = (vm: VmRef, subresource: string, local: Duplex, cluster: Cluster, { clock }: ForwardWorld) =>
  joinSession(local, (receiver) => cluster.attach(sessionPath(vm, subresource), receiver), clock)

function messageOf(error: unknown, cluster: Cluster): string {
  if (error instanceof ApiError) return error.status.message
  const known = error instanceof ApiUnreachable ? clusterFailure(error, cluster, '') : error
  return known instanceof Error ? known.message : String(known)
}
