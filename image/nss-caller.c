/* Names the user and the group that a process runs as, where /etc/passwd and /etc/group do not know them.
 *
 * A container runs under any number (docker run --user, Kubernetes' runAsUser), and ssh, mpirun and Python
 * ask for a name, a home and a shell. nsswitch.conf asks this module last. It answers for the calling process
 * alone, and never for root, so that useradd and adduser find all other numbers free.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <nss.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOME "/home/train"
#define LONGEST sizeof "uid-4294967295"

static char no_password[] = "*", nothing[] = "", shell[] = "/bin/bash", *nobody[] = {NULL};

static void name_of(char *name, const char *kind, unsigned number)
{
    snprintf(name, LONGEST, "%s-%u", kind, number);
}

/* A program that is setuid gets no home from its environment. */
static const char *home(void)
{
    const char *set = secure_getenv("HOME");
    return set != NULL && set[0] == '/' && set[1] != '\0' ? set : HOME;
}

static enum nss_status too_small(int *problem)
{
    *problem = ERANGE;
    return NSS_STATUS_TRYAGAIN;
}

static enum nss_status user(struct passwd *entry, char *buffer, size_t size, int *problem)
{
    const char *folder = home();
    if (size < LONGEST + strlen(folder) + 1)
        return too_small(problem);
    name_of(buffer, "uid", getuid());
    strcpy(buffer + LONGEST, folder);
    *entry = (struct passwd){
        .pw_name = buffer, .pw_passwd = no_password, .pw_uid = getuid(), .pw_gid = getgid(),
        .pw_gecos = nothing, .pw_dir = buffer + LONGEST, .pw_shell = shell,
    };
    return NSS_STATUS_SUCCESS;
}

static enum nss_status group(struct group *entry, char *buffer, size_t size, int *problem)
{
    if (size < LONGEST)
        return too_small(problem);
    name_of(buffer, "gid", getgid());
    *entry = (struct group){
        .gr_name = buffer, .gr_passwd = no_password, .gr_gid = getgid(), .gr_mem = nobody,
    };
    return NSS_STATUS_SUCCESS;
}

enum nss_status _nss_caller_getpwuid_r(uid_t uid, struct passwd *entry, char *buffer, size_t size, int *problem)
{
    return uid == 0 || uid != getuid() ? NSS_STATUS_NOTFOUND : user(entry, buffer, size, problem);
}

enum nss_status _nss_caller_getpwnam_r(const char *name, struct passwd *entry, char *buffer, size_t size,
                                       int *problem)
{
    char own[LONGEST];
    name_of(own, "uid", getuid());
    return getuid() == 0 || strcmp(name, own) != 0 ? NSS_STATUS_NOTFOUND : user(entry, buffer, size, problem);
}

enum nss_status _nss_caller_getgrgid_r(gid_t gid, struct group *entry, char *buffer, size_t size, int *problem)
{
    return gid == 0 || getuid() == 0 || gid != getgid() ? NSS_STATUS_NOTFOUND
                                                        : group(entry, buffer, size, problem);
}

enum nss_status _nss_caller_getgrnam_r(const char *name, struct group *entry, char *buffer, size_t size,
                                       int *problem)
{
    char own[LONGEST];
    name_of(own, "gid", getgid());
    return getuid() == 0 || strcmp(name, own) != 0 ? NSS_STATUS_NOTFOUND
                                                   : group(entry, buffer, size, problem);
}
