import type { KubeClient, ListOptions } from './kube.ts'
import type { KubeObject, Persisted, Resource } from './resource.ts'

/** Objects of at most 1.5 MiB each: a page of these takes up to 37 MiB as text. */
export const pageSize = 25

/**
 * Reads all objects of a list from etcd, page by page, with one of them in memory at a time. Returns the version to
 * watch from.
 *
 * @throws ApiError Expired if reading takes longer than etcd stores old versions
 */
export async function readEach<T extends KubeObject>(
  kube: Pick<KubeClient, 'listEach'>,
  of: Resource<T>,
  options: Omit<ListOptions, 'continue' | 'resourceVersion'> & { readonly limit: number },
  take: (object: Persisted<T>) => void,
): Promise<string> {
  let page = await kube.listEach(of, options, take)
  while (page.continue !== undefined) page = await kube.listEach(of, { ...options, continue: page.continue }, take)
  return page.resourceVersion
}
