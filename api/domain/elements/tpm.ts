import { deviceFields } from './address.ts'
import { attribute, child, element, present } from '../description.ts'
import { oneOf, path, uint8, uuid, yesNo } from '../scalar.ts'
import { profileName } from '../text.ts'

const host = { reach: 'host' } as const

const source = element('The location of the state, or the socket of an already running emulator.', {
  type: attribute(oneOf('unix', 'file', 'dir'), 'A socket, a file or a directory.', host),
  mode: attribute(oneOf('connect'), "QEMU's role.", host),
  path: attribute(path, 'The socket, file or directory.', host),
})

const banks = element('The PCR banks that are active, by hash.', {
  sha1: present('SHA-1.'),
  sha256: present('SHA-256.'),
  sha384: present('SHA-384.'),
  sha512: present('SHA-512.'),
})

const profile = element('The profile of the emulator; fixed when its state is created.', {
  source: attribute(profileName, 'The profile to use, e.g. `default-v1` or `local:NAME`.', { reach: 'pod' }),
  removeDisabled: attribute(oneOf('check', 'fips-host'), 'Whether algorithms that the node forbids are removed.'),
  name: attribute(profileName, 'The profile in use, reported by libvirt.', { reach: 'pod' }),
})

const backend = element(
  'The backend of the TPM.',
  {
    type: attribute(
      oneOf('emulator', 'passthrough', 'external'),
      "swtpm in the pod, the node's own TPM, or an already running emulator.",
      { reach: 'host', reachOf: { emulator: 'pod' } },
    ),
    version: attribute(oneOf('1.2', '2.0'), 'Version of the specification; `2.0` if absent.'),
    persistentState: attribute(yesNo, 'Whether the state outlives a transient domain.', { xml: 'persistent_state' }),
    debug: attribute(uint8, 'The log level of swtpm.'),
    device: child(
      element("The node's own TPM.", { path: attribute(path, 'Its device file; `/dev/tpm0` if absent.', host) }),
      "The node's own TPM.",
    ),
    encryption: child(
      element('Encryption of the state.', {
        secret: attribute(uuid, 'The libvirt secret that contains the passphrase.', { reach: 'pod' }),
      }),
      'Encryption of the state.',
    ),
    source: child(source, 'The location of the state, or the socket of an already running emulator.'),
    activePcrBanks: child(banks, 'The PCR banks that are active, by hash.', { xml: 'active_pcr_banks' }),
    profile: child(profile, 'The profile of the emulator.'),
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
  backend: child(backend, 'The backend.'),
  ...deviceFields,
})
