import { describe, expect, test } from 'vitest'
import { domains } from '../../test/arbitraries/domain.ts'
import fc from 'fast-check'
import { fieldAt } from '../../test/field-at.ts'
import { reachOf, walk } from './walk.ts'

const domain = {
  name: 'a',
  devices: {
    disks: [
      { device: 'cdrom', source: { host: { name: 'b' }, cookies: { cookies: [{ name: 'c' }] } } },
      { source: { hosts: [{ name: 'd' }, { name: 'e' }] } },
    ],
  },
  sysinfos: [{ oemStrings: { entries: ['f', 'g'] } }],
  unknown: { a: 1 },
}

describe('walking a domain', () => {
  test('visits scalars, objects and the items of lists, parents first', () => {
    const paths: string[] = []
    walk(domain, ({ path, value }) => {
      paths.push(typeof value === 'string' ? `${path}=${value}` : path)
    })
    expect(paths).toEqual([
      'name=a',
      'devices',
      'devices.disks[0]',
      'devices.disks[0].device=cdrom',
      'devices.disks[0].source',
      'devices.disks[0].source.host',
      'devices.disks[0].source.host.name=b',
      'devices.disks[0].source.cookies',
      'devices.disks[0].source.cookies.cookies[0]',
      'devices.disks[0].source.cookies.cookies[0].name=c',
      'devices.disks[1]',
      'devices.disks[1].source',
      'devices.disks[1].source.hosts[0]',
      'devices.disks[1].source.hosts[0].name=d',
      'devices.disks[1].source.hosts[1]',
      'devices.disks[1].source.hosts[1].name=e',
      'sysinfos[0]',
      'sysinfos[0].oemStrings',
      'sysinfos[0].oemStrings.entries[0]=f',
      'sysinfos[0].oemStrings.entries[1]=g',
    ])
  })

  test('does not descend if the visitor returns false', () => {
    const paths: string[] = []
    walk(
      domain,
      ({ path, field }) => {
        paths.push(path)
        return field.at !== 'children'
      },
      'spec.domain',
    )
    expect(paths).toEqual([
      'spec.domain.name',
      'spec.domain.devices',
      'spec.domain.devices.disks[0]',
      'spec.domain.devices.disks[1]',
      'spec.domain.sysinfos[0]',
    ])
  })

  test('finds the same field as `fieldAt` for each path', () =>
    fc.assert(
      fc.property(domains(), (generated) => {
        walk(generated, ({ path, field, holder, key, value }) => {
          expect(fieldAt(path)).toBe(field)
          const held = holder[key]
          expect(Array.isArray(held) ? held : [held]).toContain(value)
        })
      }),
      { numRuns: 100 },
    ))

  test.each([{}, [], { cpu: 1 }, { devices: { disks: { a: 1 } } }, { devices: { disks: [1, null] } }])(
    'skips values of the wrong type: %j',
    (wrong) => {
      walk(wrong, ({ value, field }) => {
        if (field.at === 'attribute') throw new Error(JSON.stringify(value))
      })
      expect(wrong).toBeDefined()
    },
  )
})

describe('the field at a path', () => {
  test.each([
    ['name', 'leaf'],
    ['devices.disks', 'children'],
    ['devices.disks[1]', 'children'],
    ['devices.disks[target.dev=vda].source.host.port', 'attribute'],
    ['devices.disks[*].backingStore.backingStore.index', 'attribute'],
    ['memory.value', 'content'],
    ['metadata', 'foreign'],
    ['', undefined],
    ['nmae', undefined],
    ['name.x', undefined],
    ['devices.disks.__proto__', undefined],
  ])('%s is %s', (path, at) => expect(fieldAt(path)?.at).toBe(at))
})

describe('what a value can touch', () => {
  test.each([
    ['name', 'a', 'pod'],
    ['title', 'a', 'guest'],
    ['os.kernel', '/vmlinuz', 'host'],
    ['memoryBacking.source.type', 'file', 'host'],
    ['memoryBacking.source.type', 'memfd', 'guest'],
    ['memoryBacking.source.type', 'constructor', 'guest'],
    ['onCrash', 'coredump-restart', 'pod'],
  ])('%s: %s reaches the %s', (path, value, reach) => {
    const field = fieldAt(path)
    expect(field && reachOf(field, value)).toBe(reach)
  })
})
