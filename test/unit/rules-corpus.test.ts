import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Cause, Origin } from '../../api/cause.ts'
import { validateDomain } from '../../api/domain/validate.ts'
import { readDomain } from '../../api/domain/xml.ts'
import { bundledCapabilities as capabilities } from '../../completion/capabilities.ts'
import { addedPaths } from '../../completion/defaults/apply.ts'
import { fillDefaults } from '../../completion/defaults/defaults.ts'
import { checkRules } from '../../completion/rules/rules.ts'

const corpus = process.env['LIBVIRT_CORPUS']
const leftOut =
  'left out: LIBVIRT_CORPUS names no folder with refuse/NAME.in.xml and complete/NAME.in.xml, made of tests/qemuxmlconfdata of libvirt'

test.each([corpus === undefined ? leftOut : "libvirt's own test domains exist"])('%s', () =>
  expect(existsSync(join(corpus ?? '', 'refuse'))).toBe(corpus !== undefined),
)

/** The rule that libvirt's message is about, for each domain that libvirt refuses. */
const refused: { readonly [name: string]: string } = {
  '440fx-ide-address-conflict': 'pci-address-unique',
  '440fx-wrong-root': 'pci-root-model',
  'broken-xml-invalid': 'xml-malformed',
  'chardev-reconnect-invalid-timeout': 'character-reconnect',
  'controller-virtio-serial-iothread': 'controller-driver',
  'cpu-cache-passthrough3': 'cpu-cache',
  'cpu-numa-distance-nonexistent-sibling': 'numa-distances',
  'cpu-numa3': 'numa-cells',
  'cpu-phys-bits-passthrough2': 'cpu-address-bits',
  'cpu-qemu-host-passthrough': 'cpu-mode',
  'cpuset-invalid': 'value',
  'cputune-iothreadsched-toomuch': 'cputune-threads',
  'cputune-vcpusched-overlap': 'cputune-threads',
  'disk-address-conflict': 'drive-address-unique',
  'disk-attaching-partition-nosupport': 'disk-target',
  'disk-cdrom-usb-empty': 'disk-source',
  'disk-encryption-wrong': 'disk-encryption',
  'disk-fmt-dir': 'disk-format',
  'disk-fmt-iso': 'disk-format',
  'disk-ide-incompatible-address': 'disk-address-type',
  'disk-network-iscsi-auth-secrettype-invalid': 'required-field',
  'disk-network-iscsi-auth-wrong-secrettype': 'disk-auth',
  'disk-network-sheepdog': 'disk-protocol',
  'disk-same-targets': 'disk-target-unique',
  'disk-sata-incompatible-address': 'disk-address-type',
  'disk-scsi-incompatible-address': 'disk-address-type',
  'disk-shared-qcow': 'disk-shareable',
  'disk-usb-pci': 'disk-address-type',
  'firmware-auto-bios-nvram': 'firmware-nvram',
  'firmware-auto-efi-enrolled-keys-no-secboot': 'firmware-features',
  'firmware-auto-efi-loader-path-nonstandard': 'firmware-found',
  'firmware-auto-efi-nvram-template-nonstandard': 'firmware-found',
  'firmware-auto-efi-rw': 'firmware-found',
  'firmware-manual-efi-loader-no-path': 'firmware-loader',
  'firmware-manual-efi-nvram-stateless': 'firmware-nvram',
  'firmware-manual-efi-nvram-template-stateless': 'firmware-nvram',
  'hostdev-mdev-display-missing-graphics': 'hostdev-options',
  'hostdev-mdev-duplicate': 'hostdev-unique',
  'hostdev-mdev-invalid-target-address': 'hostdev-address-type',
  'hostdev-mdev-src-address-invalid': 'hostdev-source',
  'hostdev-pci-duplicate': 'hostdev-unique',
  'hostdev-usb-duplicate': 'hostdev-unique',
  'hostdev-vfio-zpci-wrong-arch': 'xml-unknown-element',
  'hugepages-default-5M': 'huge-page-size',
  'hugepages-nodeset-nonexist': 'memory-backing',
  'hugepages-numa-nodeset-nonexist': 'memory-backing',
  'hvf-x86_64-q35-headless': 'domain-type',
  'luks-disk-invalid': 'disk-encryption',
  'luks-disks-source-both': 'disk-encryption',
  'mach-virt-serial-invalid-machine': 'enumeration',
  'memory-align-fail': 'memory-size',
  'memory-hotplug-invalid-targetnode': 'memory-device-node',
  'memory-hotplug-virtio-mem-overlap-address': 'memory-device-address',
  'net-hostdev-fail': 'interface-type',
  'net-user-slirp-portforward': 'interface-passt',
  'net-virtio-rxqueuesize-invalid-size': 'interface-driver',
  'no-memory': 'memory',
  'numatune-memnode-invalid-mode': 'numatune',
  'numatune-memnode-restrictive-mode-err-mixed': 'numatune',
  'numatune-memnode-unavailable-strict': 'numatune',
  'numatune-memnodes-problematic': 'numatune',
  'numatune-static-nodeset-exceed-hostnode': 'numatune',
  'pci-bridge-duplicate-index': 'controller-unique',
  'pci-bus-invalid': 'pci-address-range',
  'pci-domain-invalid': 'pci-address-range',
  'pci-expander-bus-bad-bus': 'pci-connection',
  'pci-expander-bus-bad-machine': 'pci-root-model',
  'pci-function-invalid': 'value',
  'pci-root-address': 'pci-root',
  'pci-root-nonzero-index': 'pci-root',
  'pci-slot-invalid': 'pci-address-range',
  'pcie-expander-bus-bad-bus': 'pci-connection',
  'q35-dmi-bad-address2': 'pci-connection',
  'q35-wrong-root': 'pci-root-model',
  'seclabel-device-duplicates': 'seclabel-source',
  'seclabel-device-relabel-invalid': 'seclabel-source',
  'seclabel-multiple': 'seclabel-unique',
  'serial-tcp-chardev-telnets': 'character-protocol',
  'serial-unix-missing-source': 'character-source',
  'shmem-msi-only': 'shmem',
  'shmem-small-size': 'shmem',
  'smbios-uuid-match': 'sysinfo-smbios',
  'tpm-emulator': 'tpm-backend',
  'tseg-invalid-size': 'smm-tseg',
  'usb-controller-qemu-xhci-limit': 'usb-ports',
  'usb-hub-conflict': 'usb-address',
  'usb-hub-nonexistent': 'usb-address',
  'usb-none-hub': 'usb-disabled',
  'usb-ports-out-of-range': 'usb-address',
  'usb-too-long-port-path-invalid': 'value',
  'vhost_queues-invalid': 'value',
  'video-invalid-multiple-devices': 'video-set',
  'virtio-iommu-invalid-address-type': 'iommu-model',
  'virtio-iommu-wrong-machine': 'iommu-model',
  'virtio-rng-egd-crash': 'character-source',
  'virtio-transitional-not-supported': 'input',
}

/** Refused in libvirt's tests because of the environment: an swtpm with only version 1.2, a QEMU without nec-xhci. */
const byEnvironment = ['tpm-emulator-tpm2', 'usb-controller-nec-xhci-unavailable']

/** The same TPM is refused as tpm-emulator. */
const undecidable = ['x86_64-q35-default-models.out.xml']

function causesOf(file: string): readonly Cause[] {
  const read = readDomain(readFileSync(file))
  if ('causes' in read) return read.causes
  const shape = validateDomain(read.domain)
  if (shape.length > 0) return shape
  const { domain, added } = fillDefaults(read.domain, { capabilities, entropy: { uid: 'test' }, name: 'test' })
  const paths = addedPaths(added, domain)
  const originOf = (path: string): Origin => {
    const rule = paths.get(path.replace(/^spec\.domain\./, ''))
    return rule === undefined ? { by: 'user' } : { by: 'default', rule }
  }
  return checkRules({ domain }, { capabilities, originOf, isGranted: () => true }).causes
}

const filesOf = (folder: string): string[] =>
  corpus === undefined ? [] : readdirSync(join(corpus, folder)).filter((name) => name.endsWith('.xml'))

const refuseNames = filesOf('refuse').map((file) => file.replace('.in.xml', ''))

test.each(refuseNames.filter((name) => !byEnvironment.includes(name)))(
  '%s is refused by the rule that it is about',
  (name) => {
    const causes = causesOf(join(corpus ?? '', 'refuse', `${name}.in.xml`))
    const { [name]: wanted } = refused
    // A domain that is not in the table must be refused by any rule.
    expect(causes).not.toEqual([])
    expect(causes.map(({ rule }) => rule)).toContain(wanted ?? causes[0]?.rule)
  },
)

const valid = filesOf('complete').filter(
  (file) => !refuseNames.includes(file.replace(/\.(?:in|out)\.xml$/, '')) && !undecidable.includes(file),
)

test.each(valid)('%s is not refused', (file) => {
  expect(causesOf(join(corpus ?? '', 'complete', file))).toEqual([])
})
