import type { FakeApiServer, FakeRequest } from './fake-apiserver.ts'

/** How many objects each pass has created that has created any. @param isFirst of the requests of a pass */
export function creationsOfPasses(
  { requests }: Pick<FakeApiServer, 'requests'>,
  isFirst: (request: FakeRequest) => boolean,
  path: string,
): readonly number[] {
  const counts = [0]
  for (const request of requests) {
    if (isFirst(request)) counts.push(0)
    else if (request.method === 'POST' && request.path.endsWith(path)) counts.push((counts.pop() ?? 0) + 1)
  }
  return counts.filter((count) => count > 0)
}
