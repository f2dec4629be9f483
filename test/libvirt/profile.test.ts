import { connect } from 'node:net'
import type { Duplex } from 'node:stream'
import { afterAll, expect, test } from 'vitest'
import { readCapabilities } from '../../api/capabilities.ts'
import type { LibvirtProfile } from '../../api/node-profile.ts'
import { bundledCapabilities } from '../../completion/capabilities.ts'
import { Client } from '../../launcher/libvirt/client.ts'
import { queryProfile } from '../../launcher/profile/query.ts'
import { systemClock } from '../../runtime/clock.ts'
import { startLibvirtd } from './libvirtd.ts'
import { hasKvm } from './oracle.ts'

const stops: (() => Promise<void>)[] = []

afterAll(() => Promise.all(stops.map((stop) => stop())))

async function profileWith(options: { withKvm?: boolean }): Promise<LibvirtProfile> {
  const libvirtd = await startLibvirtd(options)
  stops.push(() => libvirtd.stop())
  const client = new Client({
    dial: () =>
      new Promise<Duplex>((resolve, reject) => {
        const socket = connect(libvirtd.socket, () => resolve(socket)).once('error', reject)
      }),
    uri: 'qemu:///session',
    clock: systemClock,
    onHint: () => {},
  })
  client.start()
  try {
    return await queryProfile(client, { cache: libvirtd.cache, root: libvirtd.rootfs })
  } finally {
    client.close()
  }
}

test("the profile of the launcher's QEMU equals the bundled one, except for what depends on its build and on the machine", async () => {
  const { libvirtVersion, capabilities } = await profileWith({})
  expect(libvirtVersion).toBe('11.3.0')
  expect(readCapabilities(capabilities)).toBe(capabilities)
  expect(Object.keys(capabilities.accelerators)).toEqual(['qemu'])
  const { version, machines, emulator } = capabilities
  expect(version).toMatch(/^10\.0\./)
  expect({ machines, emulator }).toEqual({
    machines: bundledCapabilities.machines,
    emulator: bundledCapabilities.emulator,
  })
  // Debian builds QEMU without the kernel's cryptography, and this host has no KVM.
  const missing = bundledCapabilities.devices.filter((one) => !capabilities.devices.includes(one))
  expect(missing).toEqual(['cryptodev-backend-lkcf', 'kvm'])
  expect(capabilities.devices.filter((one) => !bundledCapabilities.devices.includes(one))).toEqual([])
  expect(capabilities.words).toEqual({
    ...bundledCapabilities.words,
    'crypto.backendModel': ['builtin'],
    'graphics.type': ['dbus', 'egl-headless', 'sdl', 'spice', 'vnc'],
    // This machine has no IOMMU, and the image has swtpm with both versions.
    'hostdev.pciBackend': [],
    'tpm.backendVersion': ['1.2', '2.0'],
  })
})

const effect = hasKvm ? '/dev/kvm adds only KVM to the profile' : 'two daemons report one profile on a host without KVM'

test(`${effect}`, async () => {
  const [without, other] = [await profileWith({}), await profileWith({ withKvm: hasKvm })]
  expect(Object.keys(other.capabilities.accelerators)).toEqual([...(hasKvm ? ['kvm'] : []), 'qemu'])
  const { machines, version, emulator, firmware, host } = without.capabilities
  // Nodes are grouped by their profiles.
  expect(other.capabilities).toMatchObject(
    hasKvm ? { machines, version, emulator, firmware, host } : without.capabilities,
  )
})
