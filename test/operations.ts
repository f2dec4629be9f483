import type { Operation } from '../webhooks/admission/patch.ts'
import type { AdmissionResult } from '../webhooks/admission/request.ts'

/** The operations of a result's patch, as the API server decodes them. */
export const operationsOf = (result: AdmissionResult): readonly Operation[] =>
  result.allowed && result.patch !== undefined ? JSON.parse(Buffer.from(result.patch.encoded, 'base64').toString()) : []
