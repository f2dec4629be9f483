import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { rightsOf } from '../apiserver/rights.ts'

const lineOf = (account: string, resource: string, verbs: Iterable<string>) =>
  `${account} ${resource} ${[...verbs].toSorted().join(',')}`

test('docs/reference/permissions.md lists each permission of the manifests, with a reason', () => {
  const parts = ['webhooks', 'controller', 'handler', 'overlays/object-presets', 'overlays/network-plugins']
  const rights = parts.flatMap((part) => rightsOf(`manifests/${part}/rbac.yaml`))
  const granted = Map.groupBy(
    rights,
    ({ account, resource, group }) => `${account} ${group === '' ? resource : `${resource}.${group}`}`,
  )
  const expected = [...granted].map(([key, of]) => {
    const [account = '', resource = ''] = key.split(' ')
    return lineOf(account, resource, new Set(of.map(({ verb }) => verb)))
  })
  const rows = readFileSync('docs/reference/permissions.md', 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('| virtset-'))
    .map((line) => line.split('|').map((cell) => cell.trim()))
  const listed = rows.map(([, account = '', resource = '', verbs = '']) => lineOf(account, resource, verbs.split(', ')))
  expect(listed.toSorted()).toEqual(expected.toSorted())
  expect(rows.filter(([, , , , why = '']) => why === '')).toEqual([])
})
