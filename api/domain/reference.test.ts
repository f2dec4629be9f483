import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { domainReference } from './reference.ts'

const folder = new URL('../../docs/reference/domain/', import.meta.url)

test('docs/reference/domain is up to date; otherwise run `npm run reference`', () => {
  const written = new Map(
    readdirSync(folder).map((name) => [name, readFileSync(new URL(name, folder), 'utf8')] as const),
  )
  const stale = [...domainReference()].filter(([name, text]) => written.get(name) !== text).map(([name]) => name)
  expect({ stale, unknown: [...written.keys()].filter((name) => !domainReference().has(name)) }).toEqual({
    stale: [],
    unknown: [],
  })
})

test.each([
  ['memory.md', '| `value` | text | integer 0…18446744073709551615 | guest | The amount. |'],
  ['memory.md', 'In XML: `<memory>`. Presets set it as a whole or not at all.'],
  ['disks.md', '| `source.hosts[].port` |'],
  ['disks.md', 'A list of at most 512 items; presets identify an item by `target.dev`, else `alias.name`.'],
  ['clock.md', '| `absolute` | `start` |'],
  ['README.md', '- [`devices.disks`](disks.md):'],
  ['README.md', '| `onReboot` | `<on_reboot>` |'],
])('%s contains %s', (name, line) => expect(domainReference().get(name)).toContain(line))
