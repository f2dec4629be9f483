import { expect, test } from 'vitest'
import { seedFiles } from './cloud-init.ts'

const vm = { uid: 'u-1', name: 'testvm' }
const metaData = { text: 'instance-id: u-1\nlocal-hostname: testvm\n' }

test.each([
  ['nothing given', {}, { 'user-data': { text: '' }, 'meta-data': metaData }],
  [
    'user data alone',
    { userData: '#cloud-config\n' },
    { 'user-data': { text: '#cloud-config\n' }, 'meta-data': metaData },
  ],
  [
    'all given',
    { userData: 'u', metaData: 'm', networkData: 'n' },
    { 'user-data': { text: 'u' }, 'meta-data': { text: 'm' }, 'network-config': { text: 'n' } },
  ],
  [
    'files in Secrets',
    { userDataSecretRef: { name: 'vm.a' }, networkDataSecretRef: { name: 'vm.a' } },
    { 'user-data': { path: '/s/user-data' }, 'meta-data': metaData, 'network-config': { path: '/s/network-config' } },
  ],
])('a seed with %s', (_, cloudInit, files) => expect(seedFiles(cloudInit, vm, '/s')).toEqual(files))
