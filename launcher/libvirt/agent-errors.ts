import { DeadlineExceeded, LibvirtError } from './errors.ts'
import { errorCodes } from './protocol.ts'

/** The agent, or libvirt on its behalf, does not answer in time. */
export class AgentUnresponsive extends Error {
  override name = 'AgentUnresponsive'
}

/** What the agent answers does not show whether a disk is mounted. */
export class AgentUnclear extends Error {
  override name = 'AgentUnclear'
}

/** Whether a call failed because the agent, or libvirt on its behalf, did not answer in time. */
export const isAgentLate = (error: unknown): error is Error =>
  error instanceof DeadlineExceeded || (error instanceof LibvirtError && error.code === errorCodes.agentUnresponsive)
