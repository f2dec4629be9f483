import type { Firmware, FirmwareFile } from '../../api/capabilities.ts'

interface Descriptor {
  'interface-types'?: string[]
  mapping?: {
    device: string
    mode?: string
    filename?: string
    executable?: { filename: string; format: string }
    'nvram-template'?: { filename: string; format: string }
  }
  targets?: { architecture: string; machines: string[] }[]
  features?: string[]
}

/** The firmware of a JSON descriptor with this file name, if it is for x86_64 and of a kind that libvirt supports. */
export const readFirmware = (name: string, text: string): Firmware[] => {
  const json: Descriptor = JSON.parse(text)
  if (!json.mapping) return []
  const targets = (json.targets ?? []).filter(({ architecture }) => ['x86_64', 'i386'].includes(architecture))
  if (targets.length === 0) return []
  const { device, mode = 'split', filename, executable, 'nvram-template': template } = json.mapping
  const file = (one: { filename: string; format: string }): FirmwareFile => ({ path: one.filename, format: one.format })
  const rest = { name, interfaces: json['interface-types'] ?? [], targets, features: json.features ?? [] }
  if (device === 'memory' && filename !== undefined) return [{ ...rest, mapping: { device, path: filename } }]
  if (device !== 'flash' || !executable) return []
  if (mode === 'split' && template) {
    return [{ ...rest, mapping: { device, mode, code: file(executable), variables: file(template) } }]
  }
  if (mode !== 'stateless' && mode !== 'combined') return []
  return [{ ...rest, mapping: { device, mode, code: file(executable) } }]
}
