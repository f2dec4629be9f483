import { expect, test } from 'vitest'

import { chaosTable, possibleNodes, tables } from './network.ts'

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
