import { fakeLibvirtd } from '../../test/fake-libvirtd.ts'
import { libvirtContract } from '../../test/libvirt-contract.ts'

libvirtContract(async () => {
  const fake = fakeLibvirtd()
  return {
    dial: () => fake.dial(),
    domainXml: async (name, guest) => `<domain><name>${name}</name><disk>${guest}</disk></domain>`,
    restartDaemon: async () => fake.restart(1),
    killGuests: async () => fake.killGuests(),
    stop: async () => fake.restart(Infinity),
  }
})
