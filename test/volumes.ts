import type { Volume } from '../api/volume.ts'

/** The compiler requires an example of each kind, and the tests that use them require support for it everywhere. */
const examples: Required<Omit<Volume, 'name'>> = {
  emptyDisk: { capacity: '1Gi' },
  image: {
    reference: 'quay.io/containerdisks/debian:13',
    pullPolicy: 'Always',
    path: 'disk/disk.qcow2',
    capacity: '20Gi',
  },
  persistentVolumeClaim: { claimName: 'claim', readOnly: true },
  cloudInit: { userDataSecretRef: { name: 'vm.web', key: 'user' }, networkDataSecretRef: { name: 'vm.web' } },
  configMap: { name: 'settings' },
  secret: { secretName: 'vm.sysprep', label: 'sysprep' },
}

export const volumeOfEachKind: readonly Volume[] = Object.entries(examples).map(([kind, source], index) => ({
  name: `volume-${index}`,
  [kind]: source,
}))
