import { deviceFields } from './address.ts'
import { attribute, child, element, present } from '../description.ts'
import { oneOf, path, uint8, uuid, yesNo } from '../scalar.ts'
import { profileName } from '../text.ts'

const host = { reach: 'host' } as const

const source = element('Where the state is, or the socket of an emulator that is running already.', {
  type: attribute(oneOf('unix', 'file', 'dir'), 'A socket, a file or a directory.', host),
  mode: attribute(oneOf('connect'), 'Which end QEMU is.', host),
  path: attribute(path, 'The socket, file or directory.', host),
})

const banks = element('The hashes in which the guest is measured.', {
  sha1: present('SHA-1.'),
  sha256: present('SHA-256.'),
  sha384: present('SHA-384.'),
  sha512: present('SHA-512.'),
})

const profile = element('What the emulator can do; fixed when its state is made.', {
  source: attribute(profileName, 'The profile to take, e.g. `default-v1` or `local:NAME`.', { reach: 'pod' }),
  removeDisabled: attribute(oneOf('check', 'fips-host'), 'Whether algorithms that the node forbids are taken out.'),
  name: attribute(profileName, 'The profile in use, reported by libvirt.', { reach: 'pod' }),
})

const backend = element(
  'What does the work of the TPM.',
  {
    type: attribute(
      oneOf('emulator', 'passthrough', 'external'),
      "swtpm in the pod, the node's own TPM, or an emulator that is running already.",
      { reach: 'host', reachOf: { emulator: 'pod' } },
    ),
    version: attribute(oneOf('1.2', '2.0'), 'Version of the specification; `2.0` when absent.'),
    persistentState: attribute(yesNo, 'Whether the state outlives a transient domain.', { xml: 'persistent_state' }),
    debug: attribute(uint8, 'How much swtpm logs.'),
    device: child(
      element("The node's own TPM.", { path: attribute(path, 'Its device file; `/dev/tpm0` when absent.', host) }),
      "The node's own TPM.",
    ),
    encryption: child(
      element('Encryption of the state.', {
        secret: attribute(uuid, 'The secret of libvirt that holds the passphrase.', { reach: 'pod' }),
      }),
      'Encryption of the state.',
    ),
    source: child(source, 'Where the state is, or the socket of an emulator that is running already.'),
    activePcrBanks: child(banks, 'The hashes in which the guest is measured.', { xml: 'active_pcr_banks' }),
    profile: child(profile, 'What the emulator can do.'),
  },
  {
    union: {
      by: 'type',
      owns: ['version', 'persistentState', 'debug', 'device', 'encryption', 'source', 'activePcrBanks', 'profile'],
      branches: {
        emulator: ['version', 'persistentState', 'debug', 'encryption', 'source', 'activePcrBanks', 'profile'],
        passthrough: ['device'],
        external: ['source'],
      },
    },
  },
)

export const tpm = element('A Trusted Platform Module.', {
  model: attribute(oneOf('tpm-tis', 'tpm-crb'), 'The interface that the guest sees; `tpm-crb` needs version 2.0.'),
  backend: child(backend, 'What does the work.'),
  ...deviceFields,
})
