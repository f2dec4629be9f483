import { execFile } from 'node:child_process'
import { dirname, posix } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { elementOf, type Element, type Field } from '../../api/domain/description.ts'
import type { Reach } from '../../api/domain/reach.ts'
import { type Domain, domain } from '../../api/domain/domain.ts'
import { limitsOf, valueFault } from '../../api/domain/scalar-value.ts'
import type { Scalar } from '../../api/domain/scalar.ts'
import { writeDomain } from '../../api/domain/xml.ts'
import { scalars } from '../arbitraries/domain.ts'
import { fieldAt } from '../field-at.ts'
import { type Libvirtd, startLibvirtd } from './libvirtd.ts'
import { commandLine, pathsIn, structureOf } from './command-line.ts'
import { lookedUp, places, unseen } from './text-places.ts'

let libvirtd: Libvirtd

beforeAll(async () => {
  libvirtd = await startLibvirtd()
})

afterAll(() => libvirtd.stop())

/** Every text that does not reach the host, by field; shared elements are tested in one place. */
const writable = new Map<Field, string>()
const collect = (element: Element, path: string, above: readonly Element[]): void => {
  for (const [key, field] of Object.entries(element.fields)) {
    const at = path === '' ? key : `${path}.${key}`
    const reach: Reach = field.reach ?? 'guest'
    if (reach === 'host') continue
    if ('scalar' in field && limitsOf(field.scalar) !== undefined && !writable.has(field)) writable.set(field, at)
    if (field.at !== 'child' && field.at !== 'children') continue
    const below = elementOf(field)
    if (!above.includes(below)) collect(below, at, [...above, element])
  }
}
collect(domain, '', [])

const scalarAt = (path: string): Scalar => {
  const field = fieldAt(path)
  if (!field || !('scalar' in field)) throw new Error(`no scalar at ${path}`)
  return field.scalar
}

test('every text that a user can write is tested, or has a reason why not', () => {
  const tried = new Set([...Object.keys(places), ...Object.keys(lookedUp), ...Object.keys(unseen)].map(fieldAt))
  expect([...writable].filter(([field]) => !tried.has(field)).map(([, path]) => path)).toEqual([])
})

const pieces = [
  ...', ,, = ,file=/etc/shadow ,string= a,id=b .. / /etc/passwd " \' "} { \\ -S : ; %s $HOME ` é a'.split(' '),
  ' ',
  '\n',
  '\t',
]

/** Characters that end a value or begin another one: in options of QEMU, in paths, in JSON, in a shell. */
const hostile = fc.array(fc.constantFrom(...pieces), { minLength: 1, maxLength: 6 }).map((chosen) => chosen.join(''))

/** Values that admission accepts at a leaf. */
const admitted = (scalar: Scalar): string[] =>
  fc
    .sample(fc.oneof({ weight: 3, arbitrary: hostile }, { weight: 1, arbitrary: scalars(scalar) }), 400)
    .map(String)
    .filter((value) => value !== '' && valueFault(scalar, value) === undefined)
    .slice(0, 6)

const base = (part: Domain) => ({
  type: 'qemu' as const,
  name: 'vm',
  memory: { unit: 'MiB', value: 64 },
  ...part,
  os: { type: { arch: 'x86_64', machine: 'q35', os: 'hvm' as const }, ...part.os },
})

/** The command lines that libvirt generates for domains; undefined for one that it refuses. */
async function commandLines(xmls: readonly string[]): Promise<(string[] | undefined)[]> {
  const script: string[] = []
  for (const [index, xml] of xmls.entries()) {
    const path = await libvirtd.writeFile(`text/${index}.xml`, xml)
    script.push(`domxml-to-native qemu-argv --xml ${path}`, `echo ${separator}`)
  }
  const socket = libvirtd.insideSocket
  const virsh = ['virsh', '-q', '-c', `qemu+unix:///session?socket=${socket}`]
  const stdout = await new Promise<string>((resolve, reject) => {
    const child = execFile('chroot', [libvirtd.rootfs, ...virsh], { maxBuffer: 2 ** 28 }, (error, out) =>
      // virsh exits with the result of its last command, an echo.
      error ? reject(error) : resolve(out),
    )
    child.stdin?.end(`${script.join('\n')}\n`)
  })
  // virsh repeats the command before its output, which begins with the environment of QEMU.
  return stdout
    .split(`${separator}\n`)
    .slice(0, xmls.length)
    .map((text) => /^LC_ALL=.*/ms.exec(text)?.[0])
    .map((text) => (text === undefined ? undefined : commandLine(text)))
}

const separator = '=== next'

test.each(Object.entries(places))('%s remains a single value in the command line of QEMU', async (path, make) => {
  const scalar = scalarAt(path)
  const values = [...make.valid, ...admitted(scalar)]
  expect(make.valid.map((value) => valueFault(scalar, value))).toEqual(make.valid.map(() => undefined))
  const [plain, ...others] = await commandLines(values.map((value) => writeDomain(base(make.domain(value)))))
  if (plain === undefined) throw new Error(`libvirt refuses ${values[0]}`)
  for (const [index, other] of others.entries()) {
    if (other === undefined) continue
    const value = values[index + 1]
    expect({ value, structure: structureOf(other) }).toEqual({ value, structure: structureOf(plain) })
    const depths = (words: readonly string[]) =>
      pathsIn(words, dirname(dirname(libvirtd.insideSocket))).map((at) => posix.normalize(at).split('/').length)
    expect({ value, depths: depths(other) }).toEqual({ value, depths: depths(plain) })
  }
})
