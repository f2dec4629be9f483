import { expect, test } from 'vitest'
import { readText } from './page-text.ts'

const text = `# a comment
kind: VirtualMachine
spec:
  domain:
    memory: {unit: MB, value: 0}
    devices:
      disks:
      - target: {dev: vda}
      - target:
          dev: vda
`

const lineOf = (field: string) => {
  const read = readText(text)
  if ('problems' in read) return read.problems
  return read.problemsOf([{ field, reason: 'FieldValueInvalid', message: 'no', rule: 'r' }])[0]?.line
}

test.each([
  ['spec.domain.memory', 5],
  ['spec.domain.memory.value', 5],
  ['spec.domain.devices.disks[0].target.dev', 8],
  ['spec.domain.devices.disks[1]', 9],
  ['spec.domain.devices.disks[1].target.dev', 10],
  // Absent fields are at the line of what is above them.
  ['spec.domain.os.type', 4],
  ['spec.domain.devices.disks[2].target', 7],
  ['metadata.name', 2],
  ['', 2],
])('the cause at "%s" is in line %i', (field, line) => {
  expect(lineOf(field)).toBe(line)
})

test('a JSON text has lines, too', () => {
  const read = readText('{"kind": "VirtualMachine",\n "spec": {\n  "domain": 1}}')
  const [problem] =
    'problems' in read
      ? read.problems
      : read.problemsOf([{ field: 'spec.domain', reason: 'FieldValueTypeInvalid', message: 'no', rule: 'r', value: 1 }])
  expect(problem).toEqual({ line: 3, severity: 'error', field: 'spec.domain', message: 'Invalid value: 1: no' })
})

test.each([
  ['', 1, 'the text is empty'],
  ['kind: a\n---\nkind: b', 1, 'several documents'],
  ['a: 1', 1, 'has no `kind`'],
  ['- kind: a', 1, 'has no `kind`'],
  ['kind: a\nspec: {x: [}', 2, ''],
  ['kind: a\nb: *c', 2, 'c'],
])('%j has a problem', (wrong, line, message) => {
  const read = readText(wrong)
  expect('problems' in read && read.problems).toEqual([
    { line, severity: 'error', field: '', message: expect.stringContaining(message) },
  ])
})
