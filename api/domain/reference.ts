import { elementOf, maxItemsOf, xmlName, type Children, type Element, type Field, type Leaves } from './description.ts'
import { domain } from './domain.ts'
import { limitsOf } from './scalar-value.ts'
import type { Scalar } from './scalar.ts'

/**
 * The reference of the domain, one page per subject or device: file name → Markdown. It is stored in
 * `docs/reference/domain/`; a test fails if that is out of date.
 */
export const domainReference = (): ReadonlyMap<string, string> => {
  const pages = new Map<string, string>()
  const plain: Row[] = []
  const index: string[] = []
  for (const { path, field } of subjects()) {
    if (field.at !== 'child' && field.at !== 'children') {
      plain.push(rowOf(path, field))
      continue
    }
    const name = `${path.replace('devices.', '')}.md`
    pages.set(name, page(path, field))
    index.push(`- [\`${path}\`](${name}): ${field.description}`)
  }
  pages.set('README.md', indexPage(index, plain))
  return pages
}

const note = 'Made from `api/domain/` by `npm run reference`; do not edit.'

interface Subject {
  readonly path: string
  readonly field: Field
}

/** The fields of the domain, with those of `devices` individually. */
const subjects = (): Subject[] =>
  Object.entries(domain.fields).flatMap(([key, field]: [string, Field]): Subject[] =>
    key === 'devices' && field.at === 'child'
      ? Object.entries(elementOf(field).fields).map(([name, of]) => ({ path: `devices.${name}`, field: of }))
      : [{ path: key, field }],
  )

const indexPage = (index: readonly string[], plain: readonly Row[]): string => `# spec.domain

${note}

What libvirt's Domain XML can express, as JSON. An attribute or a child element is a key in camelCase, a repeatable
element is a list with a plural name, and text beside attributes is \`value\`. Numbers may be written as decimal
strings, and must be beyond 2^53. A user cannot set a field that reaches the *host*; only a
ClusterVirtualMachinePreset can inject it.

${table(plain)}

${index.join('\n')}
`

const page = (path: string, field: Field): string => {
  const element = field.at === 'child' || field.at === 'children' ? elementOf(field) : undefined
  const parts = [
    `# spec.domain.${path}`,
    note,
    field.description,
    facts(path, field, element),
    element ? table(rowsOf(element, '', new Map([[element, `spec.domain.${path}`]]))) : '',
    element?.union ? union(element.union) : '',
  ]
  return `${parts.filter((part) => part !== '').join('\n\n')}\n`
}

const facts = (path: string, field: Field, element: Element | undefined): string => {
  const name = xmlName(path.slice(path.lastIndexOf('.') + 1), field)
  const lines = [`In XML: \`<${name}>\`.`]
  if (field.at === 'children') lines.push(...listFacts(field))
  if (element?.whole) lines.push('Presets set it as a whole or not at all.')
  return lines.join(' ')
}

const listFacts = (list: Children): string[] => {
  const { key, single, whole } = list
  const keys = key?.map((paths) => paths.map((path) => `\`${path}\``).join(' and ')).join(', else ')
  return [
    `A list of at most ${maxItemsOf(list)} items;`,
    whole === true
      ? 'presets set it as a whole or not at all.'
      : keys === undefined
        ? 'presets compare its items as a whole.'
        : `presets identify an item by ${keys}.`,
    ...(single === undefined ? [] : [`A list of one may be written as \`${single}\`.`]),
  ]
}

const union = ({ by, owns, branches }: NonNullable<Element['union']>): string => {
  const rows = Object.entries(branches ?? {}).map(
    ([value, paths]) => `| \`${value}\` | ${paths.map((path) => `\`${path}\``).join(', ') || '–'} |`,
  )
  const owned = owns.map((path) => `\`${path}\``).join(', ')
  const intro = `\`${by}\` decides which of ${owned} apply; presets set them as a whole.`
  return rows.length === 0 ? intro : `${intro}\n\n| \`${by}\` | fields |\n|---|---|\n${rows.join('\n')}`
}

interface Row {
  readonly path: string
  readonly xml: string
  readonly value: string
  readonly reach: string
  readonly description: string
}

/** @param seen the elements that were described before: each is described only once, which also ends recursion */
const rowsOf = (element: Element, prefix: string, seen: Map<Element, string>): Row[] =>
  Object.entries(element.fields).flatMap(([key, field]) => {
    const path = `${prefix}${key}`
    if (field.at !== 'child' && field.at !== 'children') return [rowOf(path, field)]
    const below = elementOf(field)
    const listed = field.at === 'children' ? `${path}[]` : path
    const before = seen.get(below)
    if (before !== undefined) return [{ ...rowOf(path, field), value: `as \`${before}\`` }]
    seen.set(below, listed)
    return [rowOf(path, field), ...rowsOf(below, `${listed}.`, seen)]
  })

const rowOf = (path: string, field: Field): Row => {
  const key = path.slice(path.lastIndexOf('.') + 1)
  return {
    path,
    xml: xmlOf(key, field),
    value: valueOf(field),
    reach: reachOf(field),
    description: field.description,
  }
}

const xmlOf = (key: string, field: Field): string => {
  if (field.at === 'content') return 'text'
  return field.at === 'attribute' ? `\`${xmlName(key, field)}=\`` : `\`<${xmlName(key, field)}>\``
}

const valueOf = (field: Field): string => {
  switch (field.at) {
    case 'attribute':
    case 'content':
    case 'leaf':
      return scalarText(field.scalar)
    case 'leaves':
      return `${listText(field)} of ${scalarText(field.scalar)}`
    case 'children':
      return listText(field)
    case 'foreign':
      return 'XML'
    case 'child':
      return Object.keys(elementOf(field).fields).length === 0 ? '`{}`' : 'object'
  }
}

const listText = ({ whole }: Children | Leaves): string => (whole === true ? 'ordered list' : 'list')

const reachOf = ({ reach = 'guest', reachOf: byValue = {} }: Field): string => {
  const others = Object.entries(byValue).map(([value, other]) => `\`${value}\`: ${other}`)
  return [reach, ...others].join(', ')
}

const words: { readonly [kind: string]: string } = {
  decimal: 'number',
  uuid: 'UUID',
  mac: 'MAC address',
  cpuset: 'set, `0-3,^2,8`',
  ip: 'IP address',
  unit: 'unit of size',
  timestamp: 'time',
  pciClass: 'PCI class',
  wwn: 'world wide name',
  bytes: 'base 64',
}

const scalarText = (scalar: Scalar): string => {
  switch (scalar.kind) {
    case 'boolean':
      return 'boolean'
    case 'enumeration':
      return scalar.values.map((value) => `\`${value}\``).join(', ')
    case 'integer': {
      const { min, max, words: also = [] } = scalar
      const isHex = scalar.hexDigits !== undefined || scalar.hexFor !== undefined || scalar.hexBeside !== undefined
      const range = min === undefined && max === undefined ? '' : ` ${min ?? ''}…${max ?? ''}`
      return [
        `integer${range}${scalar.readAsHex ? ', hex with 0x' : isHex ? ', may be hex' : ''}`,
        ...also.map((word) => `\`${word}\``),
      ].join(', ')
    }
    default: {
      const limits = limitsOf(scalar)
      return limits === undefined
        ? (words[scalar.kind] ?? scalar.kind)
        : `${limits.allowed}; at most ${limits.maxBytes} bytes`
    }
  }
}

const table = (rows: readonly Row[]): string => {
  if (rows.length === 0) return ''
  const cell = (text: string): string => text.replaceAll('|', '\\|')
  const lines = rows.map(
    ({ path, xml, value, reach, description }) =>
      `| \`${path}\` | ${xml} | ${cell(value)} | ${reach} | ${cell(description)} |`,
  )
  return ['| field | XML | value | reach | |', '|---|---|---|---|---|', ...lines].join('\n')
}
