import { expect, test } from 'vitest'
import { checkClaimTemplates, claimsOfVm, templateWithClaims, type ClaimTemplates } from './claim-template.ts'

const size = (storage: string) => ({ resources: { requests: { storage } } })
const source = { image: { reference: 'quay.io/containerdisks/debian:13' } }
const claimTemplates = [{ name: 'root', source, spec: { ...size('20Gi'), storageClassName: 'fast' } }]
const template = { spec: { domain: {}, volumes: [{ name: 'seed', cloudInit: {} }] } }
const config = { name: 'web', namespace: 'shop', uid: 'u-1' }

test('the VM of a config has a volume for each claim template', () => {
  expect(templateWithClaims({ metadata: config, spec: { template, claimTemplates } }).spec.volumes).toEqual([
    { name: 'seed', cloudInit: {} },
    { name: 'root', persistentVolumeClaim: { claimName: 'root-web', capacity: '20Gi', source } },
  ])
})

test('a claim from a snapshot is filled by the storage, and its disk grows to the size of the claim', () => {
  const snapshot = {
    ...claimTemplates[0],
    name: 'root',
    source: { snapshot: { name: 'nightly-root' } },
    spec: size('20Gi'),
  }
  const spec = { template, claimTemplates: [snapshot] }
  expect(templateWithClaims({ metadata: config, spec }).spec.volumes?.[1]).toEqual({
    name: 'root',
    persistentVolumeClaim: { claimName: 'root-web', capacity: '20Gi' },
  })
  expect(claimsOf(spec)[0]?.spec).toEqual({
    accessModes: ['ReadWriteOnce'],
    ...size('20Gi'),
    dataSource: { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', name: 'nightly-root' },
  })
  expect(checkClaimTemplates(config, spec, template, 'spec.claimTemplates')).toEqual([])
})

const claimsOf = (spec: ClaimTemplates) =>
  claimsOfVm({ kind: 'VirtualMachineConfig', metadata: config, spec }, config.name)
const claim = {
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { name: 'root-web', namespace: 'shop', labels: { 'virtset.io/config': 'web' } },
  spec: { accessModes: ['ReadWriteOnce'], storageClassName: 'fast', ...size('20Gi') },
}

test('a claim remains when the config is deleted, unless the policy is Delete', () => {
  expect(claimsOf({ claimTemplates })).toEqual([claim])
  const owner = { apiVersion: 'virtset.io/v1alpha1', kind: 'VirtualMachineConfig', name: 'web', uid: 'u-1' }
  const policy = { persistentVolumeClaimRetentionPolicy: { whenDeleted: 'Delete' } } as const
  expect(claimsOf({ claimTemplates, ...policy })).toEqual([
    { ...claim, metadata: { ...claim.metadata, ownerReferences: [owner] } },
  ])
})

test('a claim has no field that admission does not know, even if the config was stored without it', () => {
  const selector = { matchLabels: { owner: 'other' } }
  const stored = claimTemplates.map((one) => ({ ...one, spec: { ...one.spec, selector, volumeName: 'db' } }))
  expect(claimsOf({ claimTemplates: stored })).toEqual([claim])
})

test('the label of a claim is valid if the name of the config is too long for one', () => {
  const metadata = { ...config, name: `${'a'.repeat(62)}.b` }
  const [made] = claimsOfVm({ kind: 'VirtualMachineConfig', metadata, spec: { claimTemplates } }, metadata.name)
  expect(made?.metadata.labels).toEqual({ 'virtset.io/config': 'a'.repeat(62) })
})

test('each VM of a group has its own claims', () => {
  const group = { kind: 'VirtualMachineGroup', metadata: config, spec: { claimTemplates } } as const
  const metadata = { name: 'root-web-1', namespace: 'shop', labels: { 'virtset.io/group': 'web' } }
  expect(claimsOfVm(group, 'web-1')).toEqual([{ ...claim, metadata }])
})

test.each<[string, object, string]>([
  ['a name that no volume can have', { name: 'Root' }, 'spec.claimTemplates[0].name'],
  ['the name of a volume of the template', { name: 'seed' }, 'spec.claimTemplates[0].name'],
  ['a name that makes that of the claim too long', { name: 'a'.repeat(60) }, 'spec.claimTemplates[0].name'],
  [
    'a class that cannot exist',
    { spec: { ...size('1Gi'), storageClassName: '../x' } },
    'spec.claimTemplates[0].spec.storageClassName',
  ],
  ['no size', { spec: size('0') }, 'spec.claimTemplates[0].spec.resources.requests.storage'],
  ['two sources', { source: { ...source, empty: {} } }, 'spec.claimTemplates[0].source.image'],
  [
    'a source that is not a claim',
    { source: { claim: { claimName: 'No' } } },
    'spec.claimTemplates[0].source.claim.claimName',
  ],
  [
    'a snapshot that cannot exist',
    { source: { snapshot: { name: '../x' } } },
    'spec.claimTemplates[0].source.snapshot.name',
  ],
])('%s is refused', (_, over, field) => {
  const given = [{ ...claimTemplates[0], ...over }] as typeof claimTemplates
  const long = { ...config, name: 'c'.repeat(200) }
  const causes = checkClaimTemplates(long, { claimTemplates: given }, template, 'spec.claimTemplates')
  expect(causes.map((cause) => cause.field)).toEqual([field])
})
