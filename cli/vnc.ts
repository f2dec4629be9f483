import { exitCodes, type ExitCode } from './failure.ts'
import { serveScreen, type ForwardWorld } from './port-forward.ts'
import { ui } from './ui.ts'
import { hasGuest, refused, vmRef } from './vm-session.ts'
import type { Cluster, World } from './world.ts'

export interface VncFlags {
  readonly namespace?: string
  /** Where viewers connect; absent for the page. */
  readonly listen?: string
}

/** `kubectl vm vnc`: serves the page with the screen of a VM, or the screen to viewers, until it is ended. */
export async function vnc(
  name: string,
  { listen, ...flags }: VncFlags,
  cluster: Cluster,
  world: ForwardWorld & Pick<World, 'page' | 'interrupted'>,
): Promise<ExitCode> {
  if (listen !== undefined) return serveScreen(name, { ...flags, listen }, cluster, world)
  const vm = vmRef(name, flags, cluster)
  try {
    if (!(await hasGuest(vm, cluster, world))) return exitCodes.refused
  } catch (error) {
    return refused(error, vm, cluster, world)
  }
  return ui({ ...flags, port: 0 }, cluster, world, vm)
}
