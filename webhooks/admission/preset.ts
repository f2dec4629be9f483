import { parsePreset } from '../../api/preset.ts'
import { isReleased, refuse, type Handle, type KindHandler } from './kind.ts'

/**
 * Presets are never mutated.
 * @param isCompared whether to compare the preset with others and with the nodes, which takes the most time. Once is
 * enough: the findings are only warnings.
 */
const checkWith =
  (isCompared: boolean): Handle =>
  (request, engine, _trust, permissions) => {
    if (isReleased(request)) return { allowed: true }
    const parsed = parsePreset(request.object)
    if ('causes' in parsed) return refuse(parsed.causes)
    const kind = request.kind === 'ClusterVirtualMachinePreset' ? request.kind : 'VirtualMachinePreset'
    const { causes, warnings } = engine.checkPreset({ ...parsed.preset, kind }, permissions, isCompared)
    return causes.length > 0 ? refuse(causes, warnings) : { allowed: true, warnings }
  }

export const preset: KindHandler = { mutate: checkWith(false), validate: checkWith(true) }
