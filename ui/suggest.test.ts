import { expect, test } from 'vitest'
import { kindSchemas } from '../cli/schema.ts'
import { suggest, type JsonSchema } from './suggest.ts'

const schema = kindSchemas().get('VirtualMachine') as JsonSchema

/** @param text with the cursor as `|` */
function at(text: string) {
  const [before = '', after = ''] = text.split('|')
  const { from, options } = suggest(schema, before, after)
  return { typed: before.slice(from), labels: options.map(({ label }) => label), options }
}

const domain = `kind: VirtualMachine
spec:
  domain:
    devices:
      disks:
      - target: {dev: vda}
        driver:
          name: qemu
      - target:
          dev: vdb
`

test.each([
  ['the top', '|', '', ['apiVersion', 'kind', 'metadata', 'spec', 'status']],
  ['the top, without keys that are there', 'kind: a\nme|\nspec:\n', 'me', ['apiVersion', 'metadata', 'status']],
  [
    'an object of an item',
    `${domain}        target:\n          |`,
    '',
    ['dev', 'bus', 'tray', 'removable', 'rotationRate'],
  ],
  ['an enumeration', `${domain}        device: c|`, 'c', ['disk', 'cdrom', 'floppy', 'lun']],
  ['a flow collection', 'spec: {do|', '', []],
  ['a comment', 'spec: # do|', '', []],
  ['an unknown object', 'spec:\n  nothing:\n    a|', 'a', []],
  ['a text over lines', 'spec:\n  domain:\n    title: |\n      some text he', '', []],
])('in %s', (_, text, typed, labels) => {
  const found = at(text)
  expect(found.typed).toBe(typed)
  expect(found.labels).toEqual(labels)
})

test('lists may start at the column of their key, or to the right of it', () => {
  const [flat, indented] = [
    `${domain}      - |`,
    `${domain.replaceAll(/^ {6}(?=[- ] )/gm, '        ')}        - |`,
  ].map(at)
  expect(flat?.labels).toContain('target')
  expect(indented?.labels).toEqual(flat?.labels)
})

test('each item has its own keys', () => {
  expect(at(`${domain}        |`).labels).toContain('driver')
  expect(at(`${domain}        |`).labels).not.toContain('target')
  expect(at(`${domain}      - |`).labels).toContain('target')
  expect(
    at('spec:\n  domain:\n    devices:\n      disks:\n      - |\n        target:\n      - driver:\n').labels,
  ).toContain('driver')
})

test('a key states its type and what it is for, and is inserted with its colon', () => {
  const { options } = at('spec:\n  domain:\n    |')
  expect(options.find(({ label }) => label === 'devices')).toMatchObject({ text: 'devices:', type: 'object' })
  expect(options.find(({ label }) => label === 'title')).toMatchObject({ text: 'title: ', type: 'string' })
  expect(options.filter(({ description }) => description === '')).toEqual([])
})

test('a value that YAML reads as another type is quoted', () => {
  const { options } = at('spec:\n  domain:\n    memory:\n      dumpCore: |')
  expect(options.map(({ text }) => text)).toEqual(['true', 'false', '"on"', '"off"'])
})

test('a long line of another user is not searched', () => {
  const text = `spec:\n  domain:\n    title: >\n      x${' '.repeat(100_000)}y\n    vc|`
  expect(at(text)).toMatchObject({ typed: 'vc', labels: expect.arrayContaining(['vcpu']) })
})
