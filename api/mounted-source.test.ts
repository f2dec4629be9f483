import { describe, expect, test } from 'vitest'
import { checkMountedSources, mountedSources, type MountedVolume } from './mounted-source.ts'

describe('a volume mounts', () => {
  test.each<[string, MountedVolume, ReturnType<typeof mountedSources>]>([
    ['nothing for cloud-init in the VM', { cloudInit: { userData: 'x', networkData: 'y' } }, []],
    ['nothing for another kind of volume', {}, []],
    ['a ConfigMap', { configMap: { name: 'a' } }, [{ configMap: { name: 'a' } }]],
    ['a Secret', { secret: { secretName: 'vm.a', label: 'x' } }, [{ secret: { name: 'vm.a' } }]],
    [
      'the keys of cloud-init',
      { cloudInit: { userDataSecretRef: { name: 'vm.a' }, networkDataSecretRef: { name: 'vm.b', key: 'net' } } },
      [
        { secret: { name: 'vm.a', items: [{ key: 'userData', path: 'user-data' }] } },
        { secret: { name: 'vm.b', items: [{ key: 'net', path: 'network-config' }] } },
      ],
    ],
  ])('%s', (_, source, mounted) => expect(mountedSources(source)).toEqual(mounted))
})

describe('a volume is refused', () => {
  const problems = (source: MountedVolume) =>
    checkMountedSources(source, 'v').map(({ rule, field }) => `${rule} ${field}`)

  test.each<[string, MountedVolume, string[]]>([
    ['with a Secret that is not for VMs', { secret: { secretName: 'vm-a' } }, ['secret-name v.secret.secretName']],
    ['with a name of no Secret', { secret: { secretName: 'vm./a' } }, ['secret-name v.secret.secretName']],
    ['with a name of no ConfigMap', { configMap: { name: '../a' } }, ['config-map-name v.configMap.name']],
    [
      'with cloud-init in Secrets that are not for VMs',
      { cloudInit: { userDataSecretRef: { name: 'a' }, networkDataSecretRef: { name: 'b' } } },
      ['secret-name v.cloudInit.userDataSecretRef.name', 'secret-name v.cloudInit.networkDataSecretRef.name'],
    ],
    [
      'with two sources for a file of cloud-init',
      {
        cloudInit: {
          userData: 'x',
          userDataSecretRef: { name: 'vm.a' },
          networkData: 'y',
          networkDataSecretRef: { name: 'vm.a' },
        },
      },
      ['volume-cloud-init v.cloudInit.userDataSecretRef', 'volume-cloud-init v.cloudInit.networkDataSecretRef'],
    ],
    [
      'with keys that no Secret can have',
      {
        cloudInit: {
          userDataSecretRef: { name: 'vm.a', key: '..a' },
          networkDataSecretRef: { name: 'vm.a', key: '.' },
        },
      },
      ['secret-key v.cloudInit.userDataSecretRef.key', 'secret-key v.cloudInit.networkDataSecretRef.key'],
    ],
    ['not at all otherwise', { secret: { secretName: 'vm.a' }, configMap: { name: 'a' } }, []],
  ])('%s', (_, source, expected) => expect(problems(source)).toEqual(expected))
})
