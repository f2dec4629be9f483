import { isRecord } from '../../schema.ts'
import { type JsonObject, type Normalization, omit, only, within } from './member.ts'

/** What libvirt stores for memory devices. */
export const memoryDevice: Normalization = {
  'devices.memories': (memory) => storedMemory(memory),
}

const storedMemory = (memory: JsonObject): JsonObject => {
  const { model, source } = memory
  const known = typeof model === 'string' ? ofMemory[model] : undefined
  if (!known) return memory
  const own = within(memory, 'target', (target) => only(target, known.target))
  const stored = isRecord(source) ? only(source, known.source) : {}
  const result = omit(own, ['source', ...(model === 'nvdimm' ? [] : ['uuid'])])
  return Object.keys(stored).length === 0 ? result : { ...result, source: stored }
}

/** The fields that apply to a memory device, by model. */
const ofMemory: {
  readonly [model: string]: { readonly source: readonly string[]; readonly target: readonly string[] }
} = {
  dimm: { source: ['pagesize', 'nodemask'], target: ['size', 'node'] },
  nvdimm: { source: ['path', 'alignsize', 'pmem'], target: ['size', 'node', 'label', 'readonly'] },
  'virtio-pmem': { source: ['path'], target: ['size', 'address'] },
  'virtio-mem': {
    source: ['pagesize', 'nodemask'],
    target: ['size', 'node', 'block', 'requested', 'address', 'dynamicMemslots'],
  },
  'sgx-epc': { source: ['nodemask'], target: ['size', 'node'] },
}
