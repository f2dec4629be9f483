import { expect, test } from 'vitest'
import { capabilitiesSchema } from '../../api/capabilities.ts'
import { checkSchema } from '../../api/schema.ts'
import { profileOf, versionText } from './profile.ts'

const qemu = `<qemuCaps>
  <emulator>/usr/bin/qemu-system-x86_64</emulator>
  <flag name='kvm'/>
  <flag name='VGA'/>
  <version>10000013</version>
  <arch>x86_64</arch>
  <machine type='kvm' name='pc-q35-10.0' alias='q35' hotplugCpus='yes' maxCpus='4096' defaultCPU='qemu64-x86_64-cpu' acpi='yes'/>
  <machine type='kvm' name='pc-i440fx-2.12' maxCpus='255' numaMemSupported='yes' deprecated='yes' default='yes' acpi='no'/>
  <machine type='tcg' name='pc-q35-10.0' alias='q35' maxCpus='255' acpi='yes'/>
  <hypervCapabilities supported='yes'><cap name='vapic'/><cap name='relaxed'/></hypervCapabilities>
</qemuCaps>`

const domain = (cpu: string) => `<domainCapabilities>
  <cpu>
    <mode name='host-passthrough' supported='yes'/>
    ${cpu}
  </cpu>
  <devices>
    <video supported='yes'><enum name='modelType'><value>vga</value><value>bochs</value></enum></video>
    <tpm supported='no'/>
  </devices>
</domainCapabilities>`

const models = `<mode name='custom' supported='yes'>
  <model usable='yes' vendor='unknown' canonical='qemu64-v1'>qemu64</model>
  <model usable='no' vendor='AMD'>EPYC</model>
  <blockers model='EPYC'><feature name='npt'/><feature name='lbrv'/></blockers>
</mode>`

const hostModel = `<mode name='host-model' supported='yes'>
  <model fallback='forbid'>Skylake</model><vendor>Intel</vendor>
  <feature policy='require' name='vmx'/><feature policy='disable' name='hle'/>
</mode>`

const host = `<capabilities><host>
  <cpu><pages unit='KiB' size='2048'/><pages unit='KiB' size='4'/></cpu>
  <topology><cells num='2'><cell id='0'/><cell id='1'/></cells></topology>
</host></capabilities>`

const emulated = {
  cpuModels: [
    { name: 'EPYC', vendor: 'AMD', blockers: ['lbrv', 'npt'] },
    { name: 'qemu64', canonical: 'qemu64-v1', blockers: [] },
  ],
}

test('a node with KVM', () => {
  const profile = profileOf({
    qemu,
    domains: { kvm: domain(models + hostModel), qemu: domain(models) },
    host,
    firmware: new Map([['60-none.json', '']]),
  })
  expect(checkSchema(capabilitiesSchema, profile, '')).toEqual([])
  expect(profile).toEqual({
    architecture: 'x86_64',
    version: '10.0.13',
    emulator: '/usr/bin/qemu-system-x86_64',
    machines: [
      {
        name: 'pc-i440fx-2.12',
        isDefault: true,
        maxCpus: 255,
        isDeprecated: true,
        hasAcpi: false,
        hasLegacyNumaMemory: true,
      },
      { name: 'pc-q35-10.0', alias: 'q35', maxCpus: 4096, cpu: 'qemu64', hasAcpi: true, canHotplugCpus: true },
    ],
    devices: ['VGA', 'kvm'],
    accelerators: {
      kvm: {
        ...emulated,
        hostModel: {
          model: 'Skylake',
          vendor: 'Intel',
          features: [
            { name: 'hle', policy: 'disable' },
            { name: 'vmx', policy: 'require' },
          ],
        },
      },
      qemu: emulated,
    },
    hyperv: ['relaxed', 'vapic'],
    words: { 'tpm.backendModel': [], 'tpm.backendVersion': [], 'video.modelType': ['bochs', 'vga'] },
    host: { numaNodes: 2, pageSizes: [4, 2048] },
    firmware: [],
  })
})

test('a node without KVM has the machine types of emulation', () => {
  const { accelerators, machines } = profileOf({ qemu, domains: { qemu: domain(models) }, firmware: new Map() })
  expect({ accelerators, machines }).toEqual({
    accelerators: { qemu: emulated },
    machines: [{ name: 'pc-q35-10.0', alias: 'q35', maxCpus: 255, hasAcpi: true }],
  })
})

test('rejects text that is not XML', () => {
  const torn = () => profileOf({ qemu: '<qemuCaps>', domains: { qemu: domain(models) }, firmware: new Map() })
  expect(torn).toThrow(/^line 1 of XML/)
})

test.each([
  [11_003_000, '11.3.0'],
  [10_000_013, '10.0.13'],
  [9_002_001, '9.2.1'],
])('%d is version %s', (number, text) => expect(versionText(number)).toBe(text))
