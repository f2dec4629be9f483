import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { attempt, run } from './command.ts'
import type { Step } from './progress.ts'

/** A node's address on its own link, and the range of its pods. */
export interface NodeAddresses {
  readonly name: string
  /** From TEST-NET-2 (RFC 5737): not used in any real network, and the same on every host and after every reboot. */
  readonly address: string
  readonly link: string
  readonly pods: string
  /** From the prefix for documentation (RFC 3849), and unique local addresses (RFC 4193). Other nodes have IPv4 only. */
  readonly ipv6?: { readonly address: string; readonly pods: string }
}

export const podRange = '10.244.0.0/16'
export const podRangeIpv6 = 'fd10:244::/64'
/** The maximum that one host can run. */
const mostNodes = 3
const table = 'virtset'
/** The table by which the chaos suite cuts a node off. It is left behind if the suite is killed meanwhile. */
export const chaosTable = 'virtset-chaos'
/** The tables that `make down` deletes: its own, those of kube-proxy, and that of the chaos suite. */
export const tables = [
  ['ip', table],
  ['ip', 'kube-proxy'],
  ['ip6', 'kube-proxy'],
  ['ip', chaosTable],
] as const
const forwarding = '/proc/sys/net/ipv4/ip_forward'
const ipv6Settings = '/proc/sys/net/ipv6/conf'

export function nodesOf(count: number): NodeAddresses[] {
  return Array.from({ length: count }, (_, index) => addressesOf(`node${index + 1}`, index))
}

const addressesOf = (name: string, index: number): NodeAddresses => ({
  name,
  address: `198.51.100.${index + 1}`,
  link: `virtset-${name}`,
  pods: `10.244.${index}.0/24`,
})

/** Whether the kernel of this host has IPv6, and uses it. */
export const hasIpv6 = (): boolean => readSetting(`${ipv6Settings}/all/disable_ipv6`) === '0'

/**
 * The node that `make test` adds, cordoned, for the tests that break a node. Only DaemonSets run on it. Its pods have
 * IPv6 addresses, too: those of all nodes would start a second later, for the kernel looks for duplicates of each.
 */
export const spareNode: NodeAddresses = {
  ...addressesOf('spare', mostNodes),
  ...(hasIpv6() ? { ipv6: { address: '2001:db8::1', pods: podRangeIpv6 } } : {}),
}
/** Every node that a cluster can have. */
export const possibleNodes: readonly NodeAddresses[] = [...nodesOf(mostNodes), spareNode]

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
  for (const { link, address, ipv6 } of nodes) {
    // A bridge without ports: dummy devices do not exist on every kernel.
    if ((await attempt(['ip', 'link', 'show', link])) === undefined)
      await step.run(['ip', 'link', 'add', link, 'type', 'bridge'])
    await step.run(['ip', 'address', 'replace', `${address}/32`, 'dev', link])
    if (ipv6 !== undefined) await step.run(['ip', 'address', 'replace', `${ipv6.address}/128`, 'dev', link, 'nodad'])
    await step.run(['ip', 'link', 'set', link, 'up'])
  }
  if (readFileSync(forwarding, 'utf8').trim() !== '1') {
    writeFileSync(join(state, 'ip_forward'), '0')
    writeFileSync(forwarding, '1')
  }
  if (nodes.some(({ ipv6 }) => ipv6 !== undefined)) forwardIpv6(state)
  await step.run(['nft', '-f', '-'], { input: masqueradeRules() })
}

/** What `forwardIpv6` changes: each file of a setting, and its previous value. */
const ipv6Record = (state: string): string => join(state, 'ipv6_forwarding')

/** A host that forwards ignores the routers that it was configured by, unless each interface is set to heed them. */
function forwardIpv6(state: string): void {
  const forwardsAll = `${ipv6Settings}/all/forwarding`
  if (readSetting(forwardsAll) === '1') return
  const heeding = readdirSync(ipv6Settings)
    .map((name) => `${ipv6Settings}/${name}/accept_ra`)
    .filter((file) => readSetting(file) === '1')
  const before = { ...Object.fromEntries(heeding.map((file) => [file, '1'])), [forwardsAll]: '0' }
  writeFileSync(ipv6Record(state), JSON.stringify(before))
  for (const file of heeding) writeFileSync(file, '2')
  writeFileSync(forwardsAll, '1')
}

function restoreIpv6(state: string): void {
  if (!existsSync(ipv6Record(state))) return
  const before: Readonly<Record<string, string>> = JSON.parse(readFileSync(ipv6Record(state), 'utf8'))
  // Interfaces can be gone since then.
  for (const [file, value] of Object.entries(before)) if (existsSync(file)) writeFileSync(file, value)
  rmSync(ipv6Record(state))
}

/** The value of a kernel setting; undefined if the kernel does not have it. */
function readSetting(file: string): string | undefined {
  return existsSync(file) ? readFileSync(file, 'utf8').trim() : undefined
}

/** A file in `state` that exists while kube-router, which enforces NetworkPolicies in a test, may have left rules. */
const policyRecord = (state: string): string => join(state, 'kube-router')

/** Records that kube-router is about to add rules. They are left behind if the test is killed meanwhile. */
export function recordPolicyRules(state: string): void {
  writeFileSync(policyRecord(state), '')
}

/** Removes the rules and sets of kube-router, whose own `--cleanup-config` removes nothing in this version. */
export async function removePolicyRules(state: string): Promise<void> {
  if (!existsSync(policyRecord(state))) return
  await removeRules('iptables', 'ip')
  if (hasIpv6()) await removeRules('ip6tables', 'ip6')
  const sets = (await run(['ipset', 'list', '-n'])).split('\n').filter((name) => /^(inet6:)?KUBE-(SRC|DST)-/.test(name))
  for (const set of sets) await destroySet(set)
  rmSync(policyRecord(state))
}

async function removeRules(program: 'iptables' | 'ip6tables', family: 'ip' | 'ip6'): Promise<void> {
  const others = withoutPolicyRules(await run([`${program}-save`, '-t', 'filter']))
  await run([`${program}-restore`], { input: others })
  if (isUnused(others)) await attempt(['nft', 'delete', 'table', family, 'filter'])
}

/** The kernel frees deleted rules a moment later, and until then they use their sets. */
async function destroySet(name: string): Promise<void> {
  for (let left = 50; left > 0; left--) {
    if ((await attempt(['ipset', 'destroy', name])) !== undefined) return
    await sleep(100)
  }
  await run(['ipset', 'destroy', name])
}

/** What `iptables-save` printed, without the chains of kube-router and the rules that mention them. */
export function withoutPolicyRules(saved: string): string {
  const lines = saved.split('\n')
  return lines.filter((line) => !/\bKUBE-(ROUTER|POD-FW|NWPLCY)-/.test(line)).join('\n')
}

/** Whether a saved table has no rules, no chains but the built-in ones, and accepts everything. */
export function isUnused(saved: string): boolean {
  return saved.split('\n').every((line) => !/^-A|^:\S+ (?!ACCEPT )/.test(line))
}

/** Reverts `ensureNetwork`, and removes the rules of other programs. */
export async function removeNetwork(step: Step, state: string): Promise<void> {
  for (const { link } of possibleNodes)
    if ((await attempt(['ip', 'link', 'show', link])) !== undefined) await step.run(['ip', 'link', 'delete', link])
  for (const [family, name] of tables)
    if ((await attempt(['nft', 'list', 'table', family, name])) !== undefined)
      await step.run(['nft', 'delete', 'table', family, name])
  await removePolicyRules(state)
  restoreIpv6(state)
  const before = join(state, 'ip_forward')
  if (existsSync(before)) writeFileSync(forwarding, readFileSync(before, 'utf8'))
}
