/* A VNC server made with libvncserver: a sheet whose pixels lie in a file, and which tells of all input.
 *
 * paper FILE PORT WIDTH HEIGHT BYTES_PER_PIXEL VIEW_ONLY [PASSWORD]
 *
 * It reads lines from stdin, `paint N` and `size WIDTH HEIGHT`, and answers each with `done`. Pointer events are told as
 * `pointer BUTTONS X Y`, keys as `key DOWN KEYSYM`, all decimal.
 */
#include <fcntl.h>
#include <poll.h>
#include <rfb/rfb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int view_only;

static char *sheet(int file, size_t bytes) {
  if (ftruncate(file, bytes)) exit(2);
  char *pixels = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return pixels == MAP_FAILED ? exit(2), NULL : pixels;
}

static void paint(rfbScreenInfoPtr screen, unsigned seed) {
  int bytes = screen->serverFormat.bitsPerPixel / 8;
  for (int y = 0; y < screen->height; y++)
    for (int x = 0; x < screen->width; x++)
      for (int byte = 0; byte < bytes; byte++)
        screen->frameBuffer[(y * screen->width + x) * bytes + byte] = (x / 8 * 5 + y / 8 * 11 + byte * 60) * seed;
  rfbMarkRectAsModified(screen, 0, 0, screen->width, screen->height);
}

static void pointer(int buttons, int x, int y, rfbClientPtr client) {
  printf("pointer %d %d %d\n", buttons, x, y);
  rfbDefaultPtrAddEvent(buttons, x, y, client);
}

static void key(rfbBool down, rfbKeySym keysym, rfbClientPtr client) {
  (void)client;
  printf("key %d %u\n", down, keysym);
}

static enum rfbNewClientAction connected(rfbClientPtr client) {
  client->viewOnly = view_only;
  return RFB_CLIENT_ACCEPT;
}

static void obey(rfbScreenInfoPtr screen, int file, const char *line) {
  int width, height, bytes = screen->serverFormat.bitsPerPixel / 8;
  unsigned seed;
  if (sscanf(line, "paint %u", &seed) == 1) paint(screen, seed);
  if (sscanf(line, "size %d %d", &width, &height) == 2) {
    rfbNewFramebuffer(screen, sheet(file, (size_t)width * height * bytes), width, height, 8, 3, bytes);
    paint(screen, 1);
  }
  puts("done");
}

int main(int count, char **words) {
  if (count < 7) return 2;
  setvbuf(stdout, NULL, _IOLBF, 0);
  int file = open(words[1], O_RDWR | O_CREAT, 0600), width = atoi(words[3]), height = atoi(words[4]), none = 0;
  int bytes = atoi(words[5]), bits = bytes == 4 ? 8 : bytes == 2 ? 5 : 2;
  char *passwords[] = {count > 7 ? words[7] : NULL, NULL}, line[80];
  rfbScreenInfoPtr screen = rfbGetScreen(&none, NULL, width, height, bits, 3, bytes);
  screen->frameBuffer = sheet(file, (size_t)width * height * bytes);
  screen->port = atoi(words[2]);
  screen->ipv6port = 0;
  screen->listenInterface = htonl(INADDR_LOOPBACK);
  screen->alwaysShared = TRUE;
  screen->desktopName = "paper";
  screen->ptrAddEvent = pointer;
  screen->kbdAddEvent = key;
  screen->newClientHook = connected;
  view_only = atoi(words[6]);
  if (passwords[0]) {
    screen->authPasswdData = passwords;
    screen->passwordCheck = rfbCheckPasswordByList;
  }
  rfbInitServer(screen);
  paint(screen, 1);
  struct pollfd input = {0, POLLIN, 0};
  while (rfbIsActive(screen)) {
    rfbProcessEvents(screen, 5000);
    if (poll(&input, 1, 0) > 0) {
      if (!fgets(line, sizeof line, stdin)) return 0;
      obey(screen, file, line);
    }
  }
  return 0;
}
