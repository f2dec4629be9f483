import { expect, test } from 'vitest'
import { seedFiles } from './cloud-init.ts'

const vm = { uid: 'u-1', name: 'testvm' }
const metaData = 'instance-id: u-1\nlocal-hostname: testvm\n'

test.each([
  ['nothing given', {}, { 'user-data': '', 'meta-data': metaData }],
  ['user data alone', { userData: '#cloud-config\n' }, { 'user-data': '#cloud-config\n', 'meta-data': metaData }],
  [
    'all given',
    { userData: 'u', metaData: 'm', networkData: 'n' },
    { 'user-data': 'u', 'meta-data': 'm', 'network-config': 'n' },
  ],
])('a seed with %s', (_, cloudInit, files) => expect(seedFiles(cloudInit, vm)).toEqual(files))
