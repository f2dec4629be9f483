import type { Clock } from '../../runtime/clock.ts'
import type { NetworkRequest, NetworkResult } from '../../runtime/network-api.ts'
import { inheritedNetwork, runChild } from './child.ts'
import { findPodLink, type PodLink } from './pod-link.ts'

/** What a plugin of virtset does for each command. It runs in the agent; only the programs that it needs are children. */
export interface BuiltIn {
  readonly add: (request: NetworkRequest, pod: PodPrograms) => Promise<NetworkResult>
  readonly check: (request: NetworkRequest, pod: PodPrograms) => Promise<void>
  readonly del: (request: NetworkRequest, pod: PodPrograms) => Promise<void>
}

/** Runs programs in the network of a pod, and returns what they print. */
export interface PodPrograms {
  /** @throws with what it wrote to stderr */
  run(command: readonly string[], input?: string): Promise<string>
}

/** @param deadline ends the program that runs; the next one does not start */
export function podPrograms(network: number, deadline: AbortSignal, clock: Clock): PodPrograms {
  return {
    async run(command, input = '') {
      const entered = ['nsenter', `--net=${inheritedNetwork}`, '--', ...command] as const
      const { status, killed, stdout, complaint } = await runChild(entered, { input, network, deadline, clock })
      if (killed !== undefined) throw new Error(complaint === '' ? killed : `${killed}: ${complaint}`)
      if (status !== 0) throw new Error(complaint || `${command[0]} failed (${status})`)
      return stdout
    },
  }
}

/** The interface that has the addresses of the pod. @throws if there is none */
export async function readPodLink(pod: PodPrograms, { pod: { ips } }: NetworkRequest): Promise<PodLink> {
  const addresses = await pod.run(['ip', '-json', 'address'])
  const routes = await pod.run(['ip', '-json', '-4', 'route', 'show', 'default'])
  return findPodLink(ips, JSON.parse(addresses), JSON.parse(routes || '[]'))
}

export const runScript = async (pod: PodPrograms, text: string): Promise<void> =>
  void (await pod.run(['sh', '-s'], text))

/** Runs a script with a /proc/sys that can be written, which in a container only a mount namespace of its own has. */
export const runWithSysctl = async (pod: PodPrograms, text: string): Promise<void> =>
  void (await pod.run(['unshare', '--mount', '--', 'sh', '-s'], text))
