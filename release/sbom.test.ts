import { expect, test } from 'vitest'
import { billOfMaterials, debianComponents, isDevelopment, nodeComponent, type Bom } from './sbom.ts'

const npmPackage = (name: string) => ({ type: 'library', name, version: '1.0.0', 'bom-ref': `${name}@1.0.0` })
const npm: Bom = {
  serialNumber: 'urn:uuid:1',
  metadata: { timestamp: '2030-01-01T00:00:00Z', component: { type: 'library', name: 'checkout', version: '0' } },
  components: [npmPackage('a'), npmPackage('b'), npmPackage('c')],
  dependencies: [
    { ref: 'checkout@0', dependsOn: ['a@1.0.0', 'c@1.0.0'] },
    { ref: 'a@1.0.0', dependsOn: ['b@1.0.0', 'c@1.0.0'] },
    { ref: 'b@1.0.0' },
    { ref: 'c@1.0.0' },
  ],
}

test('a bill lists what the artifact contains, and neither the time nor a serial number', () => {
  const artifact = { name: 'launcher', version: 'v1.2.3', type: 'container' } as const
  expect(billOfMaterials(npm, artifact, ({ name }) => name !== 'c', [nodeComponent('24.0.0')])).toEqual({
    metadata: { component: { 'bom-ref': 'launcher@v1.2.3', name: 'launcher', version: 'v1.2.3', type: 'container' } },
    components: [
      npmPackage('a'),
      npmPackage('b'),
      {
        type: 'platform',
        name: 'node',
        version: '24.0.0',
        purl: 'pkg:generic/node@24.0.0',
        'bom-ref': 'pkg:generic/node@24.0.0',
      },
    ],
    dependencies: [
      { ref: 'launcher@v1.2.3', dependsOn: ['a@1.0.0', 'b@1.0.0', 'pkg:generic/node@24.0.0'] },
      { ref: 'a@1.0.0', dependsOn: ['b@1.0.0'] },
      { ref: 'b@1.0.0', dependsOn: [] },
    ],
  })
})

test('an included development dependency is listed as any other package', () => {
  const property = { name: 'cdx:npm:package:development', value: 'true' }
  const development = { ...npmPackage('c'), scope: 'optional', properties: [property] }
  expect([npmPackage('a'), development].map(isDevelopment)).toEqual([false, true])
  const artifact = { name: 'kubectl-vm', version: 'v1.2.3', type: 'application' } as const
  const { components } = billOfMaterials({ ...npm, components: [development] }, artifact, () => true, [])
  expect(components).toEqual([npmPackage('c')])
})

const status = `Package: tini
Status: install ok installed
Architecture: amd64
Version: 0.19.0-3

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1

Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.41-12+deb13u1
`

test('installed Debian packages become package URLs', () => {
  expect(debianComponents(status, 'trixie')).toEqual([
    {
      type: 'library',
      name: 'tini',
      version: '0.19.0-3',
      purl: 'pkg:deb/debian/tini@0.19.0-3?arch=amd64&distro=trixie',
    },
    {
      type: 'library',
      name: 'libc6',
      version: '2.41-12+deb13u1',
      purl: 'pkg:deb/debian/libc6@2.41-12%2Bdeb13u1?arch=amd64&distro=trixie',
    },
  ])
})
