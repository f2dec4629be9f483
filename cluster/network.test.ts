import { describe, expect, test } from 'vitest'

import { chaosTable, isUnused, possibleNodes, tables, withoutPolicyRules } from './network.ts'

/** Linux's IFNAMSIZ without the terminating zero. */
const maxLinkLength = 15

test('all nodes have names, addresses, links and ranges of their own', () => {
  for (const key of ['name', 'address', 'link', 'pods'] as const)
    expect(new Set(possibleNodes.map((node) => node[key])).size).toBe(possibleNodes.length)
})

test('the names of links are short enough for the kernel', () => {
  for (const { link } of possibleNodes) expect(link.length).toBeLessThanOrEqual(maxLinkLength)
})

test('make down deletes the table of the chaos suite', () => {
  expect(tables).toContainEqual(['ip', chaosTable])
})

describe('the rules of kube-router', () => {
  const saved = (policy: string, ...others: readonly string[]) => `*filter
:INPUT ACCEPT [12:3456]
:FORWARD ${policy} [0:0]
:KUBE-NWPLCY-DEFAULT - [0:0]
:KUBE-POD-FW-2FFL55ECOT2OT7E6 - [0:0]
:KUBE-ROUTER-FORWARD - [0:0]
${others.join('\n')}
-A FORWARD -m comment --comment "kube-router netpol - TEMCG2JMHZYE7H7T" -j KUBE-ROUTER-FORWARD
-A KUBE-POD-FW-2FFL55ECOT2OT7E6 -d 10.244.3.8/32 -j KUBE-NWPLCY-DEFAULT
-A KUBE-ROUTER-FORWARD -m mark --mark 0x20000/0x20000 -j ACCEPT
COMMIT`

  test.each([
    { others: 'nothing', policy: 'ACCEPT', lines: [], isLeftUnused: true },
    { others: 'a policy', policy: 'DROP', lines: [], isLeftUnused: false },
    { others: 'a rule', policy: 'ACCEPT', lines: ['-A INPUT -s 192.0.2.1/32 -j DROP'], isLeftUnused: false },
    { others: 'a chain', policy: 'ACCEPT', lines: [':DOCKER-USER - [0:0]'], isLeftUnused: false },
  ])('are removed beside $others of other programs', ({ policy, lines, isLeftUnused }) => {
    const left = withoutPolicyRules(saved(policy, ...lines))
    const builtIn = ['*filter', ':INPUT ACCEPT [12:3456]', `:FORWARD ${policy} [0:0]`]
    expect(left.split('\n').filter((line) => line !== '')).toEqual([...builtIn, ...lines, 'COMMIT'])
    expect(isUnused(left)).toBe(isLeftUnused)
  })
})
