import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { attempt } from './command.ts'
import type { Step } from './progress.ts'

/** A node's address on its own link, and the range of its pods. */
export interface NodeAddresses {
  readonly name: string
  /** From TEST-NET-2 (RFC 5737): not used in any real network, and the same on every host and after every reboot. */
  readonly address: string
  readonly link: string
  readonly pods: string
}

export const podRange = '10.244.0.0/16'
/** The maximum that one host can run. */
export const mostNodes = 3
const table = 'virtset'
const forwarding = '/proc/sys/net/ipv4/ip_forward'

export function nodesOf(count: number): NodeAddresses[] {
  return Array.from({ length: count }, (_, index) => ({
    name: `node${index + 1}`,
    address: `198.51.100.${index + 1}`,
    link: `virtset-node${index + 1}`,
    pods: `10.244.${index}.0/24`,
  }))
}

/**
 * Rules that masquerade pods as the host for external addresses. They have their own table, so that `make down` can
 * delete it; the CNI plugin adds no rules.
 */
function masqueradeRules(): string {
  return `add table ip ${table}
delete table ip ${table}
table ip ${table} {
  chain postrouting {
    type nat hook postrouting priority srcnat;
    ip saddr ${podRange} ip daddr != ${podRange} oifname != "veth*" masquerade
  }
}
`
}

/**
 * Configures the nodes' addresses and the pods' external access. Records the previous forwarding setting in `state`.
 */
export async function ensureNetwork(step: Step, state: string, nodes: readonly NodeAddresses[]): Promise<void> {
  for (const { link, address } of nodes) {
    // A bridge without ports: dummy devices do not exist on every kernel.
    if ((await attempt(['ip', 'link', 'show', link])) === undefined)
      await step.run(['ip', 'link', 'add', link, 'type', 'bridge'])
    await step.run(['ip', 'address', 'replace', `${address}/32`, 'dev', link])
    await step.run(['ip', 'link', 'set', link, 'up'])
  }
  if (readFileSync(forwarding, 'utf8').trim() !== '1') {
    writeFileSync(join(state, 'ip_forward'), '0')
    writeFileSync(forwarding, '1')
  }
  await step.run(['nft', '-f', '-'], { input: masqueradeRules() })
}

/** Reverts `ensureNetwork`, and removes the tables of kube-proxy. */
export async function removeNetwork(step: Step, state: string): Promise<void> {
  for (const { link } of nodesOf(mostNodes))
    if ((await attempt(['ip', 'link', 'show', link])) !== undefined) await step.run(['ip', 'link', 'delete', link])
  for (const [family, name] of [
    ['ip', table],
    ['ip', 'kube-proxy'],
    ['ip6', 'kube-proxy'],
  ] as const)
    if ((await attempt(['nft', 'list', 'table', family, name])) !== undefined)
      await step.run(['nft', 'delete', 'table', family, name])
  const before = join(state, 'ip_forward')
  if (existsSync(before)) writeFileSync(forwarding, readFileSync(before, 'utf8'))
}
